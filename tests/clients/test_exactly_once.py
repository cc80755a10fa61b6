"""The exam of our idempotent producer: N records over M faults of every kind arrive once each, in order per partition.

The faults hit produce requests at fixed intervals without common factors, so that they meet in ever new orders: answers
lost before and after the append, retriable errors before and after it, late answers, and the death of the broker.
Another library reads what was stored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, Delay, Drop, Error, Every, Fault, Kill, broker
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="faults are ours")

TOPIC = "exam"
PARTITIONS = 3
PATIENCE_MS = 900_000
"""No record may expire, however slow the machine is: that would be a loss which the producer reports."""
VALUE_BYTES = 100
FAULTS = (
    (Drop("after"), 37),
    (Drop("before"), 41),
    (Error("NOT_LEADER_OR_FOLLOWER"), 29),
    (Error("REQUEST_TIMED_OUT", "after"), 43),
    (Error("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "after"), 53),
    (Delay(20, "after"), 31),
)
"""An action, and every how many requests it hits."""
KILL_EVERY = 223
READ_SECONDS = 60


@contextmanager
def _started_again(running: BrokerProcess, kill: Fault) -> Iterator[None]:
    """Inside the block, start the broker again whenever `kill` has ended it."""
    is_over = threading.Event()

    def start_again() -> None:
        deaths = 0
        while not is_over.is_set():
            try:
                kill.wait_for_hits(deaths + 1, timeout_seconds=0.2)
            except TimeoutError:
                continue
            deaths += 1
            running.start()

    thread = threading.Thread(target=start_again)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _producer(bootstrap_servers: str, batch_bytes: int) -> Producer:
    return Producer(
        bootstrap_servers,
        enable_idempotence=True,
        batch_size=batch_bytes,
        buffer_memory=1 << 22,
        delivery_timeout_ms=PATIENCE_MS,
        max_block_ms=PATIENCE_MS,
    )


def _value(number: int) -> bytes:
    return b"%d" % number + b"." * VALUE_BYTES


def _read(bootstrap_servers: str, counts: Sequence[int]) -> list[list[int]]:
    """Return the numbers of all records, by partition."""
    read: list[list[int]] = [[] for _ in counts]
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    with closing(ConfluentConsumer(settings)) as consumer:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=READ_SECONDS)[1]
            for partition in range(len(counts))
        ]
        assert ends == list(counts)
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(len(counts))])
        left = sum(counts)
        while left:
            messages = consumer.consume(min(left, 10_000), timeout=READ_SECONDS)
            assert messages, f"{left} records did not come"
            for message in messages:
                partition, value = message.partition(), message.value()
                assert message.error() is None
                assert partition is not None
                assert value is not None
                read[partition].append(int(value.partition(b".")[0]))
            left -= len(messages)
    return read


@pytest.mark.parametrize(
    ("records", "faults", "batch_bytes"),
    [
        pytest.param(50_000, 50, 4_096, marks=[pytest.mark.timeout(600), pytest.mark.slow]),
        pytest.param(1_000_000, 500, 16_384, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
def test_every_record_arrives_once_and_in_order(records: int, faults: int, batch_bytes: int) -> None:
    with broker(faults=True) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        added = [running.faults.add(action, api="Produce", calls=Every(interval)) for action, interval in FAULTS]
        kill = running.faults.add(Kill("after"), api="Produce", calls=Every(KILL_EVERY))
        with _started_again(running, kill), _producer(running.bootstrap_servers, batch_bytes) as producer:
            futures = [producer.send(TOPIC, _value(number), partition=number % PARTITIONS) for number in range(records)]
            producer.flush()
        hits = sum(fault.hits for fault in (*added, kill))
        running.faults.clear()
        assert [future.result().offset for future in futures] == [number // PARTITIONS for number in range(records)]
        sent = [list(range(partition, records, PARTITIONS)) for partition in range(PARTITIONS)]
        assert _read(running.bootstrap_servers, [len(numbers) for numbers in sent]) == sent
    assert hits >= faults
    assert kill.hits > 0
