"""The leader's side of replication: what followers' fetches move."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.follower_state import FollowerState
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch, SessionReads
from barnabas.replica.partitions.session_watches import SessionWatch
from barnabas.runtime.clock import NEVER_MS
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas, key
from tests.unit.storage.log_harness import Broker, batch, log_config

THIRD = 2
LAG_MS = 30_000


def errors(entries: list[Any]) -> list[ErrorCode]:
    return [entry.error for entry in entries]


def leading(*others: int, isr: tuple[int, ...] = (US, ANOTHER), min_isr: int = 1, **lead: Any) -> Replicas:
    """We lead a partition with three replicas, all alive."""
    replicas = Replicas(Broker(config=log_config(min_insync_replicas=min_isr)))
    replicas.brokers_alive(US, ANOTHER, THIRD)
    replicas.lead(isr=isr, replicas=(US, ANOTHER, *others), **lead)
    return replicas


def high_watermark(replicas: Replicas) -> int:
    watermark: int = replicas.partition().log.high_watermark
    return watermark


def test_the_high_watermark_follows_the_slowest_in_sync_and_the_consumer_sees_it_then() -> None:
    replicas = leading()
    answered = replicas.append(("topic", 0, batch(4)), acks=-1)
    (read,) = replicas.follow(0)
    assert (len(read.records), read.high_watermark) == (len(batch(4)), 0), "followers read to the log's end"
    assert not answered, "it has read, but not said that it has written"
    (seen,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20))
    assert (len(seen.records), seen.high_watermark) == (0, 0)
    replicas.follow(4)
    assert errors(answered) == [ErrorCode.NONE]
    (seen,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20))
    assert (len(seen.records), seen.high_watermark) == (len(batch(4)), 4)


def test_a_waiting_consumer_is_woken_by_the_high_watermark() -> None:
    replicas = leading()
    waiting = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20), max_wait_ms=500)
    replicas.append(("topic", 0, batch(4)))
    replicas.follow(0)
    assert not waiting
    replicas.follow(4)
    assert [len(read.records) for read in waiting] == [len(batch(4))]


def test_a_waiting_follower_is_woken_by_an_append() -> None:
    replicas = leading()
    waiting = replicas.follow(0, max_wait_ms=500)
    assert not waiting
    replicas.append(("topic", 0, batch(4)))
    assert [len(read.records) for read in waiting] == [len(batch(4))]


def test_a_wait_that_is_over_does_not_move_the_follower() -> None:
    """Its second reading says nothing new about where the follower is (Kafka: updateFetchState)."""
    replicas = leading()
    replicas.follow(0, max_wait_ms=500)
    before = replicas.partition().state.followers[ANOTHER].state
    replicas.clock.advance(100)
    replicas.append(("topic", 0, batch(4)))
    assert replicas.partition().state.followers[ANOTHER].state is before


def test_a_follower_whose_log_diverges_is_told_where() -> None:
    replicas = leading()
    replicas.append(("topic", 0, batch(4)))
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    replicas.lead(leader_epoch=3, isr=(US, ANOTHER))
    replicas.append(("topic", 0, batch(2)))
    (diverging,) = replicas.follow(5, last_fetched_epoch=0, epoch=3, max_wait_ms=500)
    assert (diverging.error, diverging.diverging_epoch, len(diverging.records)) == (ErrorCode.NONE, (0, 4), 0)
    (older,) = replicas.follow(5, last_fetched_epoch=2, epoch=3)
    assert older.diverging_epoch == (0, 4), "no batch of epoch 2 is here"
    assert replicas.partition().state.followers[ANOTHER].state.log_end.message_offset == -1, "it has to truncate first"
    (agreeing,) = replicas.follow(4, last_fetched_epoch=0, epoch=3)
    assert (agreeing.diverging_epoch, len(agreeing.records)) == (None, len(batch(2)))
    assert errors(replicas.follow(5, last_fetched_epoch=7, epoch=3)) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_caught_up_follower_joins_the_isr() -> None:
    replicas = leading(isr=(US,))
    replicas.append(("topic", 0, batch(4)))
    assert high_watermark(replicas) == 4
    replicas.follow(0)
    assert not replicas.alter_partitions.requested
    replicas.follow(4)
    (request,) = replicas.alter_partitions.requested
    assert request.wanted.isr == (US, ANOTHER)
    replicas.append(("topic", 0, batch(1)))
    assert high_watermark(replicas) == 4, "asked for is as good as in"
    assert replicas.partition().state.isr == {US}
    request.write()
    assert replicas.partition().state.isr == {US, ANOTHER}
    assert replicas.partition().state.partition_epoch == 1
    replicas.follow(5)
    assert high_watermark(replicas) == 5
    assert replicas.manager.isr_updates.expands.count == 1


def test_a_follower_behind_this_epoch_s_start_stays_out() -> None:
    """It could be elected, and lose what the former leader acknowledged between the watermark and the log's end."""
    replicas = leading(isr=(US, ANOTHER))
    replicas.append(("topic", 0, batch(4)))
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    replicas.lead(leader_epoch=2, isr=(US, ANOTHER), replicas=(US, ANOTHER, THIRD))
    assert high_watermark(replicas) == 0
    replicas.follow(2, replica_id=THIRD)
    assert not replicas.alter_partitions.requested
    replicas.follow(4, replica_id=THIRD)
    assert [request.wanted.isr for request in replicas.alter_partitions.requested] == [(US, ANOTHER, THIRD)]


def test_a_dead_broker_does_not_join() -> None:
    replicas = leading(isr=(US,))
    replicas.brokers_alive(US)
    replicas.follow(0)
    assert not replicas.alter_partitions.requested


def lag(replicas: Replicas, milliseconds: int = LAG_MS + 1) -> None:
    replicas.clock.advance(milliseconds)
    replicas.manager.shrink_isrs()


def test_a_lagging_follower_leaves_the_isr_and_waiting_produces_complete() -> None:
    replicas = leading()
    answered = replicas.append(("topic", 0, batch(4)), acks=-1, timeout_ms=100_000)
    lag(replicas, LAG_MS)
    assert not replicas.alter_partitions.requested
    lag(replicas, 1)
    (request,) = replicas.alter_partitions.requested
    assert request.wanted.isr == (US,)
    assert not answered, "it may be refused"
    lag(replicas)
    assert len(replicas.alter_partitions.requested) == 1, "one change at a time"
    request.write()
    assert errors(answered) == [ErrorCode.NONE]
    assert high_watermark(replicas) == 4
    assert replicas.manager.isr_updates.shrinks.count == 1


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_of_the_wall_clock_moves_no_follower(step_ms: int) -> None:
    """Forward, a follower that is behind for a moment stays; back, one that fetches no more leaves in time."""
    replicas = leading()
    replicas.append(("topic", 0, batch(4)), acks=-1, timeout_ms=100_000)
    replicas.clock.set_wall_time(replicas.clock.milliseconds() + step_ms)
    lag(replicas, LAG_MS)
    assert not replicas.alter_partitions.requested
    lag(replicas, 1)
    assert [request.wanted.isr for request in replicas.alter_partitions.requested] == [(US,)]


def test_a_follower_that_never_fetched_is_not_waited_for_just_after_the_machines_start() -> None:
    """The monotonic clock begins near zero, which is no time at which the follower was caught up."""
    replicas = leading(THIRD, isr=(US,))
    assert replicas.clock.nanoseconds() < LAG_MS * 1_000_000
    answered = replicas.append(("topic", 0, batch(4)), acks=-1, timeout_ms=100_000)
    assert errors(answered) == [ErrorCode.NONE]
    assert high_watermark(replicas) == 4


def test_below_min_isr_after_the_append() -> None:
    replicas = leading(THIRD, isr=(US, ANOTHER), min_isr=2)
    replicas.follow(0)
    answered = replicas.append(("topic", 0, batch(4)), acks=-1, timeout_ms=100_000)
    replicas.follow(4, replica_id=ANOTHER)
    assert errors(answered) == [ErrorCode.NONE]
    late = replicas.append(("topic", 0, batch(1)), acks=-1, timeout_ms=100_000)
    lag(replicas)
    replicas.alter_partitions.requested[-1].write()
    assert not late, "with too few replicas the high watermark stands still"
    assert high_watermark(replicas) == 4
    replicas.partition().log.update_config(log_config(min_insync_replicas=1))
    replicas.append(("topic", 0, batch(1)))
    assert errors(late) == [ErrorCode.NONE]
    refused = leading(isr=(US,), min_isr=2)
    assert errors(refused.append(("topic", 0, batch()), acks=-1)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    alone = Replicas(Broker(config=log_config(min_insync_replicas=2)))
    alone.lead()
    assert errors(alone.append(("topic", 0, batch()), acks=-1)) == [ErrorCode.NONE], "one replica is all there is"


def test_not_enough_replicas_after_append() -> None:
    """The watermark passed while enough were in sync; by the time the produce is looked at, they are not."""
    replicas = leading(isr=(US, ANOTHER), min_isr=1)
    answered = replicas.append(("topic", 0, batch(4)), acks=-1)
    partition = replicas.partition()
    partition.log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    partition.log.update_config(log_config(min_insync_replicas=2))
    replicas.lead(leader_epoch=1, isr=(US,), replicas=(US, ANOTHER))
    assert errors(answered) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_refused_change_is_taken_back_and_a_lost_race_waits_for_the_controller() -> None:
    replicas = leading()
    replicas.append(("topic", 0, batch(4)))
    lag(replicas)
    replicas.alter_partitions.requested[0].refuse(ErrorCode.INELIGIBLE_REPLICA)
    assert not replicas.partition().state.isr_state.is_pending
    lag(replicas)
    replicas.alter_partitions.requested[1].refuse(ErrorCode.INVALID_UPDATE_VERSION)
    assert replicas.partition().state.isr_state.is_pending
    lag(replicas)
    assert len(replicas.alter_partitions.requested) == 2
    replicas.lead(leader_epoch=1, isr=(US, ANOTHER))
    assert not replicas.partition().state.isr_state.is_pending
    lag(replicas)
    replicas.alter_partitions.requested[2].refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert len(replicas.alter_partitions.requested) == 4, "tried again"


def test_an_answer_that_comes_after_a_new_leadership_is_ignored() -> None:
    replicas = leading()
    replicas.append(("topic", 0, batch(4)))
    lag(replicas)
    replicas.lead(leader_epoch=1, isr=(US, ANOTHER))
    replicas.alter_partitions.requested[0].write()
    assert replicas.partition().state.isr == {US, ANOTHER}
    assert high_watermark(replicas) == 0


def test_an_order_of_the_same_epoch_does_not_undo_what_the_leader_changed() -> None:
    replicas = leading(isr=(US,))
    replicas.follow(0)
    replicas.alter_partitions.requested[0].write()
    (refused,) = replicas.lead(isr=(US,), replicas=(US, ANOTHER)).topics
    assert refused.partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert replicas.partition().state.isr == {US, ANOTHER}


def test_the_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    replicas = leading(isr=(US,))
    replicas.append(("topic", 0, batch(4)))
    replicas.follow(0)
    replicas.append(("topic", 0, batch(2)))
    replicas.follow(4)  # where the end was at its former fetch, but behind the watermark: it may not join yet
    assert not replicas.alter_partitions.requested
    replicas.append(("topic", 0, batch(2)))
    assert high_watermark(replicas) == 6, "caught up a moment ago: running away would keep it out for ever"
    replicas.clock.advance(LAG_MS + 1)
    replicas.append(("topic", 0, batch(2)))
    assert high_watermark(replicas) == 10


def test_the_watermark_does_not_wait_for_a_follower_that_may_not_join() -> None:
    """A broker that is stopping fetches once more, and never again: the produce must not wait for its time-out."""
    replicas = leading(isr=(US,), min_isr=1)
    replicas.follow(0)
    answered = replicas.append(("topic", 0, batch(4)), acks=-1, timeout_ms=100_000)
    assert not answered
    replicas.alter_partitions.requested[0].refuse(ErrorCode.INELIGIBLE_REPLICA)
    assert errors(answered) == [ErrorCode.NONE]
    assert high_watermark(replicas) == 4


def test_a_proposal_has_the_broker_epochs_of_its_fetches() -> None:
    """A follower that has returned since, with another disk perhaps, must not join by a proposal sent again."""
    replicas = leading(isr=(US,))
    replicas.follow(0, broker_epoch=30)
    replicas.follow(0, broker_epoch=31)
    replicas.alter_partitions.requested[0].refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [dict(each.broker_epochs) for each in replicas.alter_partitions.requested] == [{ANOTHER: 30}, {ANOTHER: 30}]


def test_a_topic_deleted_while_a_produce_waits() -> None:
    replicas = leading()
    answered = replicas.append(("topic", 0, batch()), acks=-1)
    replicas.stop()
    assert errors(answered) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_gauges_of_in_sync_replicas() -> None:
    replicas = leading(isr=(US,), min_isr=2)
    partition = replicas.partition()
    assert (partition.is_under_replicated, partition.is_under_min_isr, partition.is_at_min_isr) == (True, True, False)
    replicas.lead(leader_epoch=1, isr=(US, ANOTHER))
    assert (partition.is_under_replicated, partition.is_under_min_isr, partition.is_at_min_isr) == (False, False, True)
    replicas.lead(leader=ANOTHER, leader_epoch=2, isr=(US, ANOTHER))
    assert not partition.is_at_min_isr


def test_a_follower_of_a_busy_leader_is_caught_up_although_it_never_reaches_the_end() -> None:
    state = FollowerState()
    for turn in range(1, 5):
        now_ms = turn * 1000
        state = state.after_fetch(LogOffsetMetadata(10 * (turn - 1)), 0, 10 * turn, -1, now_ms)
        assert state.last_caught_up_ms == (now_ms - 1000 if turn > 1 else NEVER_MS)
    behind = state.after_fetch(LogOffsetMetadata(31), 0, 60, -1, 9000)
    assert behind.last_caught_up_ms == state.last_caught_up_ms


def test_consumers_never_read_what_is_not_in_sync() -> None:
    replicas = leading(isr=(US, ANOTHER))
    replicas.append(("topic", 0, batch(4)))
    for isolation in (FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED):
        (read,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20), isolation=isolation)
        assert len(read.records) == 0


# -- followers whose sessions leave a partition out


class FollowerSession:
    """A follower that fetches in a session; after its first fetch the partition is left out."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.watch = SessionWatch(reads_to_end=True)
        self.fetch_from(0)

    def fetch_from(self, offset: int) -> list[PartitionFetch]:
        """Fetch the partition."""
        fetch = PartitionFetch("topic", 0, offset, 1 << 20, log_start_offset_of_follower=0)
        return self._fetch({key(): fetch})

    def leave_out(self) -> None:
        """Fetch other partitions of the session, which has seen no mark of this one."""
        self._fetch({})

    def _fetch(self, begun_with: dict[TopicPartition, PartitionFetch]) -> list[PartitionFetch]:
        answered: list[PartitionFetch] = []
        terms = FetchTerms(0, 1, 1 << 20, FetchIsolation.LOG_END, replica_id=ANOTHER)
        now_ms = self.replicas.partition().environment.monotonic_ms()
        reads = SessionReads(self.watch, begun_with, begun_with, now_ms)
        self.replicas.manager.reader.fetch_records(terms, reads.fetches, answered.extend, reads)
        self.replicas.actions.run_all()
        return answered


def test_a_follower_whose_fetches_leave_the_partition_out_stays_in_sync_when_records_come() -> None:
    replicas = leading()
    session = FollowerSession(replicas)
    for _ in range(10):
        replicas.pass_time(LAG_MS // 2)
        session.leave_out()
    replicas.append(("topic", 0, batch(4)))
    replicas.manager.shrink_isrs()
    assert not replicas.alter_partitions.requested, "it had everything when it fetched last"
    session.fetch_from(0)
    replicas.append(("topic", 0, batch(1)))
    session.fetch_from(4)
    replicas.pass_time(LAG_MS + 1)
    replicas.manager.shrink_isrs()
    assert [each.wanted.isr for each in replicas.alter_partitions.requested] == [(US,)], "now it lags"


def test_a_follower_that_does_not_fetch_at_all_is_late_from_its_last_fetch_on() -> None:
    replicas = leading()
    session = FollowerSession(replicas)
    replicas.pass_time(LAG_MS)
    session.leave_out()
    replicas.pass_time(LAG_MS + 1)
    replicas.append(("topic", 0, batch(4)))
    replicas.manager.shrink_isrs()
    assert [each.wanted.isr for each in replicas.alter_partitions.requested] == [(US,)]


def test_what_another_leader_epoch_left_out_counts_no_more() -> None:
    replicas = leading()
    session = FollowerSession(replicas)
    replicas.lead(isr=(US,), replicas=(US, ANOTHER), leader_epoch=1)
    session.leave_out()
    assert replicas.partition().state.followers[ANOTHER].state_by_now.last_caught_up_ms == NEVER_MS
