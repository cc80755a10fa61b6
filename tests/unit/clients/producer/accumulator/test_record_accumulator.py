"""The accumulator with a standing clock: what is ready when, what is drained, what goes back where."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from barnabas.clients.errors import BufferExhausted, ClientClosed
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import ProducerRecord, RecordMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import RecordBatch
from barnabas.rpc.metadata_updater import FOREVER_MS
from tests.support.client_metadata import cluster_of

CLUSTER = cluster_of({"t": [0, 1, 0], "u": [0]}, brokers=2)
TP0, TP1, TP2 = (TopicPartition("t", number) for number in range(3))


class Setting:
    def __init__(self, **config: Any) -> None:
        self.config = ProducerConfig(**{"linger_ms": 10, "batch_size": 1000, **config})
        self.pool = BufferPool(self.config.buffer_memory)
        self.accumulator = RecordAccumulator(self.config, self.pool, Random(1))
        self.now = 1000

    def append(self, partition: int | None = 0, size: int = 100, topic: str = "t") -> Future[RecordMetadata]:
        return self.add(partition, size, topic)[0]

    def add(self, partition: int | None, size: int, topic: str = "t") -> tuple[Future[RecordMetadata], bool]:
        return self.accumulator.append(
            topic,
            partition,
            ProducerRecord(5, None, b"v" * size, (), size + 32),
            CLUSTER,
            max_block_ms=0,
            now=lambda: self.now,
        )

    def ready(self) -> set[int]:
        return self.accumulator.ready(CLUSTER, self.now).node_ids

    def drain(self, *nodes: int, max_bytes: int = 1 << 20) -> dict[int, list[ProducerBatch]]:
        return self.accumulator.drain(CLUSTER, nodes or (0, 1), max_bytes, self.now)

    def drain_one(self) -> ProducerBatch:
        (batches,) = self.drain().values()
        return batches[0]


def test_a_batch_lingers_and_a_full_one_does_not() -> None:
    setting = Setting()
    setting.append()
    result = setting.accumulator.ready(CLUSTER, setting.now)
    assert (result.node_ids, result.next_check_ms) == (set(), 10)
    setting.now += 4
    assert setting.accumulator.ready(CLUSTER, setting.now).next_check_ms == 6
    setting.now += 6
    assert setting.ready() == {0}
    other = Setting()
    for _ in range(9):
        other.append(1)
    assert other.ready() == {1}


def test_the_sender_is_woken_for_new_and_for_full_batches() -> None:
    setting = Setting()
    woken = [setting.add(0, 300)[1] for _ in range(4)]
    assert woken == [True, False, True, False]


def test_unknown_leaders_are_reported() -> None:
    setting = Setting()
    setting.append(topic="elsewhere")
    result = setting.accumulator.ready(CLUSTER, setting.now + 100)
    assert (result.node_ids, result.unknown_leader_topics) == (set(), {"elsewhere"})


def test_short_memory_flush_and_close_make_everything_ready() -> None:
    for make_urgent in (RecordAccumulator.begin_flush, RecordAccumulator.close):
        setting = Setting()
        setting.append()
        assert setting.ready() == set()
        make_urgent(setting.accumulator)
        assert setting.ready() == {0}


def test_drain_takes_one_batch_a_partition_within_the_size_and_rotates() -> None:
    setting = Setting(linger_ms=0)
    for _ in range(3):
        for partition in range(3):
            setting.append(partition, size=700)
    drained = setting.drain()
    assert {node: [b.topic_partition for b in batches] for node, batches in drained.items()} == {
        0: [TP0, TP2],
        1: [TP1],
    }
    first = [setting.drain(0, max_bytes=800)[0][0].topic_partition for _ in range(2)]
    assert set(first) == {TP0, TP2}, "no partition starves"


def test_a_batch_larger_than_the_request_goes_alone() -> None:
    setting = Setting(linger_ms=0)
    setting.append(0, size=5000)
    assert [len(batches) for batches in setting.drain(0, max_bytes=100).values()] == [1]


def test_muted_partitions_are_neither_ready_nor_drained() -> None:
    setting = Setting(linger_ms=0)
    setting.append()
    setting.accumulator.mute(TP0)
    assert setting.ready() == set()
    assert setting.drain() == {}
    setting.accumulator.unmute(TP0)
    assert setting.ready() == {0}
    assert setting.drain_one().topic_partition == TP0


def test_a_retry_waits_at_the_head_of_the_queue_and_nothing_overtakes_it() -> None:
    setting = Setting(linger_ms=0, retry_backoff_ms=100)
    setting.append(size=10)
    batch = setting.drain_one()
    setting.append(size=20)
    setting.accumulator.reenqueue(batch, setting.now)
    assert batch.attempts == 1
    setting.now += 50
    result = setting.accumulator.ready(CLUSTER, setting.now)
    assert result.node_ids == set()
    assert 0 < result.next_check_ms <= 70
    assert setting.drain() == {}
    setting.now += 80
    assert setting.drain_one() is batch


def test_ready_and_drain_agree_on_when_a_backoff_ends() -> None:
    """The backoff is a matter of chance: drawn anew, it would let the Sender sleep on a batch that is ready."""
    setting = Setting(linger_ms=0, retry_backoff_ms=100)
    for _ in range(50):
        setting.append()
        batch = setting.drain_one()
        setting.accumulator.reenqueue(batch, setting.now)
        while not setting.ready():
            setting.now += 1
        assert setting.drain_one() is batch
        setting.accumulator.finished(batch)


def test_expiry_by_age() -> None:
    setting = Setting(delivery_timeout_ms=30_010)
    setting.append()
    setting.append(1)
    assert setting.accumulator.next_expiry_ms(setting.now) == 30_010
    setting.now += 30_009
    assert setting.accumulator.expire(setting.now) == []
    setting.now += 1
    assert {batch.topic_partition for batch in setting.accumulator.expire(setting.now)} == {TP0, TP1}
    assert setting.accumulator.next_expiry_ms(setting.now) == FOREVER_MS
    assert not setting.accumulator.queue_lengths()


def test_memory_is_taken_per_batch_and_given_back_once() -> None:
    setting = Setting(buffer_memory=2500, linger_ms=0)
    setting.append(0)
    setting.append(0)
    setting.append(1)
    assert setting.pool.available_bytes == 500
    with pytest.raises(BufferExhausted):
        setting.append(2)
    assert setting.pool.available_bytes == 500
    batch = setting.drain(0)[0][0]
    setting.accumulator.finished(batch)
    setting.accumulator.finished(batch)
    assert setting.pool.available_bytes == 1500


def test_split_pieces_go_to_the_head_in_order() -> None:
    setting = Setting(linger_ms=0, batch_size=2000, compression_type="gzip")
    futures = [setting.append(size=300) for _ in range(6)]
    batch = setting.drain_one()
    later = setting.append(size=1)
    pieces = setting.accumulator.split_and_reenqueue(batch)
    assert pieces >= 2
    setting.accumulator.finished(batch)
    offset = 0
    while setting.accumulator.queue_lengths():
        piece = setting.drain_one()
        assert piece.data is not None
        piece.complete(offset, -1)
        offset += RecordBatch(piece.data).count
        setting.accumulator.finished(piece)
    assert [future.result(0).offset for future in [*futures, later]] == list(range(7))
    assert setting.pool.available_bytes == setting.pool.total_bytes


def test_splitting_gets_somewhere_even_below_the_batch_size() -> None:
    setting = Setting(linger_ms=0, batch_size=100_000)
    for _ in range(2):
        setting.append(size=100)
    assert setting.accumulator.split_and_reenqueue(setting.drain_one()) == 2


def test_the_sticky_partitioner_fills_a_batch_before_it_moves_on() -> None:
    setting = Setting(linger_ms=60, batch_size=1000)
    partitions = []
    for _ in range(400):
        setting.append(None, size=90)
        partitions.append(max(setting.accumulator.queue_lengths()))
    lengths = setting.accumulator.queue_lengths()
    assert set(lengths) == {TP0, TP1, TP2}
    assert sum(lengths.values()) <= 400 * 100 // 1000 + 20, "batches are full"


def test_aborting_fails_everything_and_closing_refuses_more() -> None:
    setting = Setting(linger_ms=0)
    queued, in_flight = setting.append(1), setting.append(0)
    setting.drain(0)
    setting.accumulator.close()
    with pytest.raises(ClientClosed):
        setting.append()
    setting.accumulator.abort_undrained(ClientClosed("undrained"))
    assert isinstance(queued.exception(0), ClientClosed)
    assert not in_flight.done()
    setting.accumulator.abort_incomplete(ClientClosed("all"))
    assert isinstance(in_flight.exception(0), ClientClosed)
    assert not setting.accumulator.has_incomplete()
    assert setting.pool.available_bytes == setting.pool.total_bytes


def test_flush_waits_for_what_was_there() -> None:
    setting = Setting(linger_ms=0)
    setting.append()
    batch = setting.drain_one()
    setting.append()
    setting.accumulator.begin_flush()
    batch.complete(0, -1)
    setting.accumulator.finished(batch)
    second = setting.drain_one()
    second.complete(1, -1)
    setting.accumulator.await_flush()
    assert setting.accumulator._incomplete.flushes == 0


def test_flush_waits_for_the_pieces_of_a_split_batch_too() -> None:
    setting = Setting(linger_ms=0, batch_size=2000)
    futures = [setting.append(size=300) for _ in range(4)]
    setting.accumulator.begin_flush()
    flushing = threading.Thread(target=setting.accumulator.await_flush)
    flushing.start()
    batch = setting.drain_one()
    setting.accumulator.split_and_reenqueue(batch)
    setting.accumulator.finished(batch)
    done_at_end = []
    while setting.accumulator.queue_lengths():
        done_at_end.append(flushing.is_alive())
        piece = setting.drain_one()
        piece.complete(0, -1)
        setting.accumulator.finished(piece)
    flushing.join(10)
    assert all(done_at_end)
    assert all(future.done() for future in futures)
    assert not flushing.is_alive()
