"""Throttled replicas: only those named, only out of sync, on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.file_records import FileRecords
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.replica.fetcher.leader_end_point import FetchedPartitions
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.rpc.fetch_session_handler import WantedPositions
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas
from tests.unit.storage.log_harness import Broker, batch, log_config

SIZE = len(batch(2))
WINDOW_MS = 11_000


def leading(throttled: str, *, isr: tuple[int, ...] = (US,), limit: int = 1) -> Replicas:
    """We lead a partition with one batch, and followers with our limit."""
    config = log_config(**{"leader.replication.throttled.replicas": throttled, "segment.bytes": 2 * SIZE})
    replicas = Replicas(Broker(config=config))
    replicas.quotas.leader.limit(limit)
    replicas.brokers_alive(US, ANOTHER)
    replicas.lead(isr=isr, replicas=(US, ANOTHER))
    replicas.append(("topic", 0, batch(2)))
    return replicas


def sizes(read: Sequence[PartitionFetch]) -> list[int]:
    return [len(each.records) for each in read]


def exceeded(replicas: Replicas) -> Replicas:
    """The follower has had its first batch, which the limit lets pass, as any."""
    assert sizes(replicas.follow(0)) == [SIZE]
    return replicas


def test_a_throttled_follower_waits_until_the_rate_is_low_again() -> None:
    replicas = exceeded(leading("0:0"))
    replicas.append(("topic", 0, batch(2)))
    (held_back,) = replicas.follow(2)
    assert sizes([held_back]) == [0]
    assert held_back.read_from is not None, "its progress is noted all the same"
    assert replicas.partition().state.followers[ANOTHER].state.log_end.message_offset == 2
    replicas.clock.advance(WINDOW_MS)
    assert sizes(replicas.follow(2)) == [SIZE]


@pytest.mark.parametrize(("throttled", "limit"), [("1:0", 1), ("0:1", 1), ("", 1), ("0:0", 10_000)])
def test_replicas_that_are_not_named_and_rates_below_the_limit_pass(throttled: str, limit: int) -> None:
    replicas = exceeded(leading(throttled, limit=limit))
    assert sizes(replicas.follow(0)) == [SIZE]


def test_every_replica_is_named_by_a_star() -> None:
    assert sizes(exceeded(leading("*")).follow(0)) == [0]


def test_replicas_in_sync_pass_and_count() -> None:
    replicas = exceeded(leading("*", isr=(US, ANOTHER)))
    assert sizes(replicas.follow(0)) == [SIZE]
    assert replicas.quotas.leader.byte_rate() == 2 * SIZE


def test_consumers_pass_and_do_not_count() -> None:
    replicas = exceeded(leading("*"))
    replicas.follow(2)
    assert sizes(replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20))) == [SIZE]
    assert replicas.quotas.leader.byte_rate() == SIZE


@pytest.mark.parametrize("batches", [1, 5], ids=["the same segment", "a later segment"])
def test_held_back_records_end_no_wait(batches: int) -> None:
    replicas = exceeded(leading("*"))
    waiting = replicas.follow(2, max_wait_ms=500)
    for _ in range(batches):
        replicas.append(("topic", 0, batch(2)))
    assert not waiting
    replicas.pass_time(501)
    assert sizes(waiting) == [0]


class LeaderInProcess:
    """A follower's way to its leader: a call. asked: the offsets of its fetches."""

    def __init__(self, leader: Replicas) -> None:
        self._leader = leader
        self.asked: list[int] = []

    def fetch(self, positions: WantedPositions) -> FetchedPartitions:
        (position,) = positions
        self.asked.append(position.offset)
        (read,) = self._leader.follow(position.offset, last_fetched_epoch=position.last_fetched_epoch)
        records = bytes(read.records.read()) if isinstance(read.records, FileRecords) else b""
        data = FetchResponse.PartitionData(
            partition_index=0, high_watermark=read.high_watermark, log_start_offset=0, records=records
        )
        read.release()
        return {position.topic_partition: data}

    def earliest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        raise AssertionError

    latest_offset = earliest_offset

    def initiate_close(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_follower_out_of_sync_asks_for_its_throttled_replica_when_the_rate_is_low(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReplicaFetcherThread, "start", lambda _: None)
    leader = leading("")
    for _ in range(5):
        leader.append(("topic", 0, batch(2)))
    link = LeaderInProcess(leader)
    config = log_config(**{"follower.replication.throttled.replicas": "0:1"})
    follower = Replicas(Broker(config=config), broker_id=ANOTHER, connect=lambda _: link)
    follower.quotas.follower.limit(1)
    follower.lead(leader=US, isr=(US,), replicas=(US, ANOTHER), live_leaders=(US,))
    (thread,) = follower.manager.fetchers().threads

    def turn() -> list[int]:
        link.asked.clear()
        thread.turn()
        return list(link.asked)

    # A read of the leader ends with its segment, which has two batches.
    assert turn() == [0]
    assert follower.quotas.follower.byte_rate() == 2 * SIZE
    assert turn() == [], "eight records are missing, and the rate is exceeded"
    follower.clock.advance(WINDOW_MS)
    assert turn() == [4]
    assert turn() == []
    follower.clock.advance(WINDOW_MS)
    assert turn() == [8]
    assert turn() == [12], "the replica is in sync, and is not held back"
