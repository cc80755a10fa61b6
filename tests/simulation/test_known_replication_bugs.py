"""Apache Kafka's known bugs of replication as histories: each is played step by step, and must end well here.

Brokers 0, 1 and 2 are those of the descriptions: A, B and C. Where a history loses records by what was done to it (an
unclean election, a lost disk), that is stated, and the replicas must agree all the same.
"""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from tests.simulation.replicated_partition import BROKERS, ReplicatedPartition, values
from tests.unit.storage.log_harness import read_all

A, B, C = BROKERS


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaFetcherThread, "start", lambda _: None)


def _cluster(batches: int = 3) -> ReplicatedPartition:
    """Return a partition led by A, with some batches on all replicas."""
    cluster = ReplicatedPartition(1)
    cluster.loss = 0.0
    assert cluster.leader == A
    for _ in range(batches):
        cluster.produce()
    cluster.settle()
    return cluster


def _end(cluster: ReplicatedPartition, broker_id: int) -> int:
    log = cluster.log(broker_id)
    assert log is not None
    return log.log_end_offset


def _high_watermark(cluster: ReplicatedPartition, broker_id: int) -> int:
    log = cluster.log(broker_id)
    assert log is not None
    return log.high_watermark


def _is_acknowledged(cluster: ReplicatedPartition, number: int) -> bool:
    answer = cluster.produced[number].answer
    return bool(answer) and answer[0].error is ErrorCode.NONE


def _fetch_until_equal(cluster: ReplicatedPartition, *followers: int) -> None:
    """Let followers copy what the leader has. They do not learn of the high watermark that this raises."""
    for follower in followers:
        for _ in range(100):
            if _end(cluster, follower) == _end(cluster, cluster.leader):
                break
            cluster.fetch(follower)


def _forget(cluster: ReplicatedPartition, batches: int) -> None:
    """Let the last batches be lost: nothing promises that they are kept."""
    for produced in cluster.produced[-batches:]:
        produced.answer.clear()


def _check_equal(cluster: ReplicatedPartition) -> None:
    """All replicas are in sync, and have the same bytes."""
    assert sorted(cluster.isr) == list(BROKERS)
    logs = [cluster.log(each) for each in BROKERS]
    assert len({tuple(read_all(log)) for log in logs if log is not None}) == 1


def test_kip_101_a_follower_that_restarts_keeps_what_is_above_its_high_watermark() -> None:
    """KIP-101, first case: B has the record, and does not know that it is committed. It restarts, and A dies.

    Kafka cut B's log at its high watermark, and B led without the record.
    """
    cluster = _cluster()
    cluster.produce()
    _fetch_until_equal(cluster, B, C)
    cluster.fetch(C)
    cluster.fetch(B)
    cluster.produce()
    _fetch_until_equal(cluster, C, B)
    for _ in range(3):  # the next fetch of each tells A what it has; only C hears of the answer
        cluster.fetch(C)
    cluster.cut.add(frozenset((A, B)))
    if not _is_acknowledged(cluster, -1):
        cluster.cut.clear()
        cluster.fetch(B)
        cluster.cut.add(frozenset((A, B)))
    assert _is_acknowledged(cluster, -1)
    end = _end(cluster, B)
    cluster.bounce(B)
    cluster.deliver(B)
    cluster.fetch(B)
    assert _end(cluster, B) == end, "B has cut its log before it could ask a leader"
    cluster.isr = (A, B)
    cluster.kill(A)
    assert cluster.leader == B
    cluster.deliver_all()
    cluster.settle()
    assert cluster.check() == len(cluster.produced)


def test_kip_101_replicas_that_lost_power_do_not_diverge() -> None:
    """KIP-101, second case: A and B lose power, B without its last record. B leads first, and writes another one there.

    The record that only A has left is lost, though it was acknowledged: no disk but A's had it. A must not keep it.
    """
    cluster = _cluster()
    cluster.kill(C)
    cluster.deliver_all()
    cluster.remember_disk(B)
    cluster.produce()
    _fetch_until_equal(cluster, B)
    cluster.fetch(B)
    assert _is_acknowledged(cluster, -1)
    _forget(cluster, 1)
    lost = cluster.produced[-1].value
    cluster.committed.clear()
    before = _end(cluster, A)
    cluster.kill(A)
    cluster.lose_power(B)
    cluster.isr = (A, B)
    cluster.elect(B)
    cluster.deliver_all()
    assert _end(cluster, B) < before
    for _ in range(3):
        cluster.produce(acks=1)
    _forget(cluster, 3)
    cluster.start(A)
    cluster.settle()
    _check_equal(cluster)
    log = cluster.log(A)
    assert log is not None
    assert lost not in values(log, log.log_end_offset).values()
    cluster.check()


def _unclean_failovers(cluster: ReplicatedPartition) -> None:
    """Have A, B and again A lead after each other, and write, without any of them copying from another."""
    for first, second in ((A, B), (B, C), (A, C)):
        cluster.cut.add(frozenset((first, second)))
    for leader in (A, B, A):
        cluster.elect_unclean(leader)
        cluster.deliver_all()
        for _ in range(3):
            cluster.produce(acks=1)
        _forget(cluster, 3)


def test_kip_279_fast_failovers_do_not_let_logs_diverge() -> None:
    """KIP-279: B has records of an epoch that A never knew, and A has a later one. B asks A about that epoch.

    Kafka's leader answered with the start of its next epoch, so that B kept its own records below that offset.
    """
    cluster = _cluster()
    _unclean_failovers(cluster)
    cluster.committed.clear()
    cluster.observed.clear()
    cluster.settle()
    _check_equal(cluster)
    cluster.check()


@pytest.mark.parametrize("last", [A, B])
def test_kafka_6361_two_unclean_leaders_and_a_third_that_has_neither(last: int) -> None:
    """KAFKA-6361: the epochs of A and B interleave, and C has none of them; the last leader's log must win whole."""
    cluster = _cluster()
    _unclean_failovers(cluster)
    cluster.elect_unclean(last)
    cluster.deliver_all()
    log = cluster.log(last)
    assert log is not None
    expected = read_all(log)
    cluster.committed.clear()
    cluster.observed.clear()
    cluster.settle()
    _check_equal(cluster)
    for broker_id in BROKERS:
        log = cluster.log(broker_id)
        assert log is not None
        assert read_all(log)[: len(expected)] == expected


def test_kip_320_the_former_leader_and_its_follower_commit_nothing() -> None:
    """KIP-320: A is deposed and does not know it, and C still follows A. B leads with C in sync.

    What A is sent is not acknowledged, and C gives up what it has copied of it.
    """
    cluster = _cluster()
    cluster.elect(B)
    cluster.deliver(B)
    zombie = cluster.nodes[A]
    cluster.nodes = {A: zombie, C: cluster.nodes[C], B: cluster.nodes[B]}
    leaders = [each for each in BROKERS if cluster._partition(each).is_leader]
    assert leaders == [A, B], "two brokers believe that they lead"
    first = len(cluster.produced)
    for _ in range(6):
        cluster.produce()  # some to A, some to B
    for _ in range(10):
        cluster.fetch(C)  # from A
        cluster.fetch(B)
    assert _end(cluster, C) == _end(cluster, A), "C has copied from the former leader"
    assert not any(_is_acknowledged(cluster, number) for number in range(first, len(cluster.produced)))
    cluster.deliver_all()
    cluster.settle()
    _check_equal(cluster)
    cluster.check()


def test_kip_320_a_follower_of_a_former_epoch_is_fenced() -> None:
    """KIP-320: C follows A in an old epoch, while A leads again in a new one. A must not take C for its follower."""
    cluster = _cluster()
    cluster.elect(B)
    cluster.deliver(B)
    cluster.deliver(A)
    cluster.elect(A)
    cluster.deliver(B)
    cluster.deliver(A)
    cluster.produce()
    end = _end(cluster, C)
    for _ in range(10):
        cluster.fetch(C)
        cluster.fetch(B)
    assert _end(cluster, C) == end, "C has copied in an epoch that it was not told of"
    assert not _is_acknowledged(cluster, -1), "the old epoch's follower has raised the high watermark"
    cluster.deliver_all()
    cluster.settle()
    assert cluster.check() == len(cluster.produced)


def test_kip_966_the_last_replica_that_lost_its_disk_loses_what_was_acknowledged() -> None:
    """KIP-966's last replica, stated for what it is: with A alone in sync, and its disk lost, acknowledged records go.

    Kafka's answer (eligible leader replicas) needs KRaft. Here as there with ZooKeeper, A leads with an empty log, and
    B and C take that over: nothing diverges. KIP-966's other half holds: with A alone nothing new was acknowledged.
    """
    cluster = _cluster()
    acknowledged = sum(_is_acknowledged(cluster, number) for number in range(len(cluster.produced)))
    assert acknowledged == 3
    cluster.kill(B)
    cluster.kill(C)
    cluster.deliver_all()
    high_watermark = _high_watermark(cluster, A)
    cluster.produce()
    assert not _is_acknowledged(cluster, -1)
    assert _high_watermark(cluster, A) == high_watermark, "consumers see a record that one replica has"
    cluster.lose_all_but_an_emptied_leader()
    cluster.deliver_all()
    cluster.committed.clear()
    cluster.observed.clear()
    cluster.produced.clear()
    cluster.settle()
    _check_equal(cluster)
    log = cluster.log(A)
    assert log is not None
    assert log.log_end_offset == 0
