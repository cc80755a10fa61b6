"""Seeded histories of a replicated partition: nothing committed is ever lost or changed, and replicas end up equal.

Fetches, orders, elections, kills, cut links, lost answers, full disks, and emptied or older disks of brokers out of
sync, in any sequence. What was acknowledged with acks=all and `min.insync.replicas=2`, and what any leader has shown to
consumers, is in the log of every replica in the end, once and at its offset. The same histories find planted defects.
"""

from __future__ import annotations

import pytest

from barnabas.replica.fetcher import fetcher_thread, follower_logs
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.replica.fetcher.partition_fetch_state import FollowedState, FollowerLogPosition
from barnabas.replica.partitions.session_watches import SessionWatches
from barnabas.storage.log.leader_epochs import EpochEntry
from tests.simulation.replicated_partition import BROKERS, ReplicatedPartition, run_history
from tests.unit.storage.log_harness import read_all

SEEDS = range(380)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaFetcherThread, "start", lambda _: None)


@pytest.mark.parametrize("part", range(4))
def test_nothing_committed_is_lost(part: int) -> None:
    acknowledged = sum(run_history(seed) for seed in SEEDS[part::4])
    assert acknowledged > len(SEEDS), "too few histories acknowledge anything"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(20))
def test_nothing_committed_is_lost_in_10_000_histories(part: int) -> None:
    for seed in range(1_000 + part, 11_000, 20):
        run_history(seed)


def _is_found() -> bool:
    try:
        for seed in range(100):
            run_history(seed)
    except AssertionError:
        return True
    return False


def test_a_follower_that_never_truncates_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_everything(diverging: EpochEntry, own: EpochEntry | None, log_end_offset: int) -> int:
        return log_end_offset

    monkeypatch.setattr(follower_logs, "truncation_offset", keep_everything)
    assert _is_found()


def test_a_follower_that_does_not_tell_its_last_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = FollowedState.begin

    def without_epoch(topic_id: bytes, leader_epoch: int, log: FollowerLogPosition) -> FollowedState:
        state = begin(topic_id, leader_epoch, log)
        return FollowedState(topic_id, leader_epoch, state.fetch_offset, -1, state.phase)

    monkeypatch.setattr(FollowedState, "begin", without_epoch)
    assert _is_found()


def test_a_follower_that_truncates_to_its_high_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect of Kafka before KIP-101: the high watermark of a follower is late by a fetch."""
    begin = FollowedState.begin

    def at_high_watermark(topic_id: bytes, leader_epoch: int, log: FollowerLogPosition) -> FollowedState:
        return begin(
            topic_id, leader_epoch, FollowerLogPosition(log.start_offset, log.high_watermark, log.end_offset, -1)
        )

    monkeypatch.setattr(FollowedState, "begin", at_high_watermark)
    assert _is_found()


def test_a_follower_that_gives_up_when_its_disk_is_full_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_thread, "is_shortage", lambda _: False)
    assert _is_found()


def test_sessions_leave_partitions_out() -> None:
    """Half of the histories fetch in sessions."""
    cluster = ReplicatedPartition(1, in_sessions=True)
    cluster.produce()
    cluster.settle()
    assert cluster.check() == 1
    assert cluster.done["left out"] > 10


@pytest.mark.parametrize("are_marked", [True, False])
def test_sessions_read_at_once_what_was_appended(are_marked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: without its mark the partition stays left out, and the client waits."""
    cluster = ReplicatedPartition(1, in_sessions=True)
    cluster.produce()
    cluster.settle()
    if not are_marked:
        monkeypatch.setattr(SessionWatches, "mark", lambda _, key: None)
    cluster.produce()
    for _ in range(2):
        for broker_id in BROKERS:
            cluster.fetch(broker_id)
    assert bool(cluster.produced[-1].answer) is are_marked


@pytest.mark.parametrize("knows_returned_brokers", [True, False])
def test_a_proposed_follower_that_comes_back_with_an_emptied_disk(knows_returned_brokers: bool) -> None:
    """It may not join by that proposal (KIP-903). A controller that ignores epochs takes it in."""
    cluster = ReplicatedPartition(1)
    cluster.knows_returned_brokers = knows_returned_brokers
    cluster.loss = 0.0
    for _ in range(5):
        cluster.produce()
    cluster.settle()
    follower = next(each for each in BROKERS if each != cluster.leader)
    cluster.kill(follower)
    cluster.start(follower)
    cluster.deliver_all()
    for _ in range(20):
        cluster.fetch(follower)
    assert cluster.nodes[cluster.leader].alter_partitions.requested, "it has caught up and is proposed"
    cluster.kill(follower)
    cluster.start_emptied(follower)
    cluster.answer_proposal(cluster.leader)
    assert (follower in cluster.isr) is not knows_returned_brokers
    if knows_returned_brokers:
        cluster.settle()
        assert cluster.check() == 5


@pytest.mark.parametrize("batches_afterwards", [0, 3, 30])
def test_followers_ahead_of_an_emptied_leader_take_over_its_log(batches_afterwards: int) -> None:
    """The last in-sync replica has lost its disk: its records are lost, and the replicas agree all the same."""
    cluster = ReplicatedPartition(batches_afterwards)
    for _ in range(10):
        cluster.produce()
    cluster.settle()
    for broker_id in BROKERS:
        log = cluster.log(broker_id)
        assert log is not None
        assert log.log_end_offset >= 10
    cluster.lose_all_but_an_emptied_leader()
    cluster.deliver_all()
    for _ in range(batches_afterwards):
        cluster.produce(acks=1)
    cluster.committed.clear()
    cluster.observed.clear()
    cluster.settle()
    leader = cluster.log(cluster.leader)
    assert leader is not None
    assert leader.log_end_offset >= batches_afterwards
    for broker_id in BROKERS:
        log = cluster.log(broker_id)
        assert log is not None
        assert read_all(log) == read_all(leader)
    assert sorted(cluster.isr) == list(BROKERS)
