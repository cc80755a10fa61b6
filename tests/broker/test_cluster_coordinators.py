"""Consumer groups of three brokers whose coordinator is killed; quotas and settings that are made through one broker.

Both members of a group are ours and commit after each poll; each has a thread of its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, NewTopic, QuotaEntity
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import Cluster
from tests.support.numbered_records import eventually
from tests.support.raw_client import RawClient, make_batch

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 4
REBALANCING = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
RECORDS = 200
"""Of each partition, before the coordinator's death and after."""


class Member(threading.Thread):
    """A member of a group, which counts the records that it reads until `end`."""

    def __init__(self, three: Cluster, topic: str, protocol: str) -> None:
        super().__init__()
        self.read: Counter[bytes] = Counter()
        self.end = threading.Event()
        self.partitions = 0
        """How many it is assigned."""
        self.error: BaseException | None = None
        self._topic = topic
        self._consumer = Consumer(
            three.bootstrap_servers, group_id=topic, group_protocol=protocol, auto_offset_reset="earliest"
        )

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                consumer.subscribe([self._topic])
                while not self.end.is_set():
                    self.read.update(record.value or b"" for record in consumer.poll(timeout_ms=100))
                    self.partitions = len(consumer.assignment())
                    self._commit(consumer)
        except BaseException as error:
            self.error = error
            raise

    @staticmethod
    def _commit(consumer: Consumer) -> None:
        try:
            consumer.commit_sync()
        except ApiError as error:
            if error.code not in REBALANCING:
                raise
            # The next member begins at the last commit, and reads these records again.


@contextmanager
def two_members(three: Cluster, topic: str, protocol: str) -> Iterator[tuple[Member, Member]]:
    members = (Member(three, topic, protocol), Member(three, topic, protocol))
    for member in members:
        member.start()
    try:
        # Else the first to join may have read everything before the other gets its partitions.
        eventually(lambda: all(member.partitions == PARTITIONS // 2 for member in members))
        yield members
    finally:
        for member in members:
            member.end.set()
        for member in members:
            member.join()
    assert [member.error for member in members] == [None, None]


def produce(three: Cluster, topic: str, first: int) -> set[bytes]:
    """Produce RECORDS values to each partition, and return them."""
    values = set()
    with Producer(three.bootstrap_servers, acks="all") as producer:
        for number in range(first, first + RECORDS):
            for partition in range(PARTITIONS):
                value = b"%d-%d" % (partition, number)
                producer.send(topic, value, partition=partition)
                values.add(value)
    return values


def committed(three: Cluster, group: str) -> dict[TopicPartition, int]:
    with Admin(three.bootstrap_servers) as admin:
        return {place: each.offset for place, each in admin.list_group_offsets(group).items()}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_after_its_coordinators_death(three: Cluster, protocol: str) -> None:
    topic = f"{protocol}-group"
    with Admin(three.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3)])
    with two_members(three, topic, protocol) as (one, other):
        expected = produce(three, topic, 0)
        # Sets of the keys: the members' threads count on meanwhile, and a counter must not grow in a loop over it.
        eventually(lambda: {*one.read, *other.read} == expected and one.read and other.read)
        before = eventually(lambda: offsets if sum((offsets := committed(three, topic)).values()) > 0 else None)
        with Admin(three.bootstrap_servers) as admin:
            coordinator = admin.describe_groups([topic])[topic].coordinator.id
        three.kill(coordinator)
        after = committed(three, topic)
        assert all(after[place] >= offset for place, offset in before.items()), (before, after)
        expected |= produce(three, topic, RECORDS)
        eventually(lambda: {*one.read, *other.read} == expected)
        whole = {TopicPartition(topic, partition): 2 * RECORDS for partition in range(PARTITIONS)}
        eventually(lambda: committed(three, topic) == whole)
        with Admin(three.bootstrap_servers) as admin:
            described = admin.describe_groups([topic])[topic]
        assert described.coordinator.id != coordinator
        assert len(described.members) == 2
    three.restart(coordinator)


def test_quotas_and_settings_act_on_all_brokers(three: Cluster) -> None:
    """Made through broker 0; the brokers that lead partitions obey them."""
    everywhere = ConfigResource.all_brokers()
    with Admin(three.brokers[0].bootstrap_servers) as admin:
        assignments = {broker: (broker,) for broker in range(3)}
        admin.create_topics([NewTopic("charged", assignments=assignments)])
        for running in three.brokers:
            with RawClient(running) as client:
                assert client.metadata("charged").error_code == ErrorCode.NONE, "create_topics has waited for it"
        admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"producer_byte_rate": 1024.0}})
        admin.incremental_alter_configs(everywhere, [ConfigChange("message.max.bytes", ConfigOperation.SET, "5000")])
    for broker in range(3):
        eventually(partial(is_throttled, three, broker))
        eventually(partial(is_too_large, three, broker))


def is_throttled(three: Cluster, broker: int) -> bool:
    return _produce(three, broker, b"v" * 2_000).throttle_time_ms > 0


def is_too_large(three: Cluster, broker: int) -> bool:
    (topic,) = _produce(three, broker, b"v" * 10_000).responses
    return bool(topic.partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE)


def _produce(three: Cluster, broker: int, value: bytes) -> ProduceResponse:
    with RawClient(three.brokers[broker], client_id="slow") as client:
        request = client.produce_request("charged", make_batch([value]), 9, 1, partition=broker)
        return client.call(request, 9, ProduceResponse)
