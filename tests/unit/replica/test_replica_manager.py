"""Leadership, appends and reads through the replica layer's door, on a simulated disk."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from tests.unit.replica.replica_harness import ANOTHER, TOPIC_ID, US, Replicas
from tests.unit.storage.log_harness import Broker, batch, log_config


def errors(entries: list[Any]) -> list[ErrorCode]:
    return [entry.error for entry in entries]


def test_a_leader_appends_and_serves_what_it_appended() -> None:
    replicas = Replicas()
    assert replicas.lead().error_code == ErrorCode.NONE
    (first,) = replicas.append(("topic", 0, batch(3)))
    (second,) = replicas.append(("topic", 0, batch(2)), acks=-1)
    assert (first.info.first_offset, first.info.last_offset) == (0, 2)
    assert (second.info.first_offset, second.info.last_offset) == (3, 4)
    assert first.records is None, "the purgatory must hold no frames"
    (read,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20))
    assert (read.error, read.high_watermark, read.log_start_offset) == (ErrorCode.NONE, 5, 0)
    assert len(read.records) == len(batch(3)) + len(batch(2))


@pytest.mark.parametrize("acks", [-2, 2, 7])
def test_acks_are_minus_one_zero_or_one(acks: int) -> None:
    replicas = Replicas()
    replicas.lead()
    assert errors(replicas.append(("topic", 0, batch()), acks=acks)) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert replicas.partition().log.log_end_offset == 0


def test_one_partition_s_failure_does_not_touch_the_others() -> None:
    replicas = Replicas()
    replicas.lead(partition=0)
    replicas.lead(partition=1)
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    answered = replicas.append(("topic", 0, bytes(damaged)), ("topic", 1, batch()), ("nowhere", 0, batch()), acks=-1)
    assert errors(answered) == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_partition_elsewhere_is_not_unknown() -> None:
    replicas = Replicas()
    replicas.announce("topic", 0, leader=ANOTHER)
    with pytest.raises(ApiError) as refused:
        replicas.partition("topic", 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as unknown:
        replicas.partition("topic", 1)
    assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_takes_no_appends_and_keeps_its_log() -> None:
    replicas = Replicas()
    replicas.lead()
    replicas.append(("topic", 0, batch(2)))
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(ANOTHER, US))
    assert errors(replicas.append(("topic", 0, batch()))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    replicas.lead(leader_epoch=2, isr=(US,), replicas=(US, ANOTHER))
    (entry,) = replicas.append(("topic", 0, batch()))
    assert entry.info.first_offset == 2
    epochs = [(found.epoch, found.start_offset) for found in replicas.partition().log.leader_epochs.entries]
    assert epochs == [(0, 0), (2, 2)]


def test_orders_of_an_earlier_controller_or_epoch_are_refused() -> None:
    replicas = Replicas()
    replicas.lead(leader_epoch=5, controller_epoch=3)
    assert replicas.lead(leader_epoch=6, controller_epoch=2).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    response = replicas.lead(leader_epoch=4, controller_epoch=3)
    assert response.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    other_topic = replicas.lead(leader_epoch=6, controller_epoch=3, topic_id=bytes(15) + b"x")
    assert other_topic.topics[0].partition_errors[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert replicas.partition().state.leader_epoch == 5


def test_min_isr_is_checked_before_anything_is_written() -> None:
    replicas = Replicas(Broker(config=log_config(min_insync_replicas=2)))
    replicas.lead(replicas=(US, ANOTHER))
    assert errors(replicas.append(("topic", 0, batch()), acks=-1)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert errors(replicas.append(("topic", 0, batch()), acks=1)) == [ErrorCode.NONE]
    assert replicas.partition().log.log_end_offset == 1


def test_acks_all_waits_for_the_in_sync_replicas() -> None:
    replicas = Replicas()
    replicas.lead(isr=(US, ANOTHER))
    waiting: list[Any] = []
    replicas.manager.appender.append_records([], required_acks=-1, timeout_ms=1000, on_complete=waiting.append)
    assert waiting == [[]], "nothing to append: nothing to wait for"
    answered = replicas.append(("topic", 0, batch(4)), acks=-1)
    assert not answered
    assert replicas.append(("topic", 0, batch()), acks=1), "acks=1 doesn't wait"


def answer_of_waiting_produce(replicas: Replicas) -> list[Any]:
    answered: list[Any] = []
    replicas.manager.appender.append_records(
        [PartitionAppend("topic", 0, batch(4))], required_acks=-1, timeout_ms=1000, on_complete=answered.extend
    )
    assert not answered
    return answered


def test_a_waiting_produce_completes_when_the_isr_shrinks_to_us() -> None:
    replicas = Replicas()
    replicas.lead(isr=(US, ANOTHER))
    answered = answer_of_waiting_produce(replicas)
    replicas.lead(leader_epoch=1, isr=(US,), replicas=(US, ANOTHER))
    assert errors(answered) == [ErrorCode.NONE]
    assert replicas.partition().log.high_watermark == 4


def test_a_waiting_produce_hears_at_once_that_leadership_moved() -> None:
    """The part of KAFKA-4453 that one broker has: the losing leader answers, long before the request times out."""
    replicas = Replicas()
    replicas.lead(isr=(US, ANOTHER))
    answered = answer_of_waiting_produce(replicas)
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    assert errors(answered) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_produce_that_waits_too_long_times_out() -> None:
    replicas = Replicas()
    replicas.lead(isr=(US, ANOTHER))
    answered = answer_of_waiting_produce(replicas)
    replicas.pass_time(999)
    assert not answered
    replicas.pass_time(2)
    assert errors(answered) == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_deleted_replica_is_gone_and_its_topic_may_come_again() -> None:
    replicas = Replicas()
    replicas.lead()
    replicas.append(("topic", 0, batch(2)))
    response = replicas.stop()
    assert response.partition_errors[0].error_code == ErrorCode.NONE
    assert errors(replicas.append(("topic", 0, batch()))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    replicas.lead(topic_id=bytes(reversed(TOPIC_ID)))
    (entry,) = replicas.append(("topic", 0, batch()))
    assert entry.info.first_offset == 0


@pytest.mark.parametrize("also", ["", "the replica was stopped before", "a life in which the partition was not opened"])
def test_the_high_watermark_survives_a_restart(also: str) -> None:
    replicas = Replicas()
    replicas.lead(isr=(US,))
    replicas.append(("topic", 0, batch(3)))
    if also.startswith("the replica"):
        replicas.stop(delete=False)
        (refused,) = replicas.append(("topic", 0, batch()))
        assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replicas.manager.shutdown()
    replicas.broker.restart()
    if also.startswith("a life"):
        Replicas(replicas.broker).manager.shutdown()  # the controller had nothing to say
        replicas.broker.restart()
    again = Replicas(replicas.broker)
    again.lead(leader=ANOTHER, leader_epoch=1, isr=(ANOTHER, US), is_new=False)
    assert again.partition().log.high_watermark == 3


def test_a_replica_that_comes_back_to_its_open_log_knows_its_high_watermark() -> None:
    replicas = Replicas()
    replicas.lead(isr=(US,), is_new=False)
    replicas.append(("topic", 0, batch(3)))
    replicas.stop(delete=False)
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(ANOTHER, US), is_new=False)
    assert replicas.partition().log.high_watermark == 3
