"""DeleteRecords below the handler: on one broker at once, with followers when they have followed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.requests.delete_records import DeleteRecordsResult
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas, deleter_of, key
from tests.unit.storage.log_harness import Broker, batch, log_config

Answered = list[Mapping[TopicPartition, DeleteRecordsResult]]


def delete(replicas: Replicas, offsets: dict[TopicPartition, int], timeout_ms: int = 1000) -> Answered:
    answered: Answered = []
    deleter_of(replicas.manager).delete_records(offsets, timeout_ms=timeout_ms, on_complete=answered.append)
    return answered


def with_records(isr: tuple[int, ...] = (US,), **config: object) -> Replicas:
    replicas = Replicas(Broker(config=log_config(**config)))
    replicas.brokers_alive(US, ANOTHER)
    replicas.lead(isr=isr)
    replicas.append(("topic", 0, batch(10)))
    return replicas


@pytest.mark.parametrize(("offset", "low_watermark"), [(4, 4), (-1, 10), (0, 0)])
def test_one_broker_answers_at_once(offset: int, low_watermark: int) -> None:
    replicas = with_records()
    assert delete(replicas, {key(): offset}) == [{key(): (low_watermark, ErrorCode.NONE)}]
    assert replicas.partition().log.log_start_offset == low_watermark


def test_refusals() -> None:
    replicas = with_records()
    compacted = with_records(cleanup_policy="compact")
    replicas.announce("elsewhere", 0, ANOTHER)
    for asked, where, error in [
        ({key(): 11}, replicas, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({key(): -2}, replicas, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({key(): 4}, compacted, ErrorCode.POLICY_VIOLATION),
        ({key("unknown"): 4}, replicas, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({key("elsewhere"): 4}, replicas, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({key("__consumer_offsets"): 4}, replicas, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]:
        (topic_partition,) = asked
        assert delete(where, asked) == [{topic_partition: (-1, error)}]


def test_it_waits_until_the_followers_have_followed() -> None:
    replicas = with_records(isr=(US, ANOTHER))
    replicas.follow(10)
    answered = delete(replicas, {key(): 4, key("unknown"): 1})
    assert not answered
    replicas.follow(10, log_start_offset=3)
    assert not answered
    replicas.follow(10, log_start_offset=4)
    assert answered == [{key(): (4, ErrorCode.NONE), key("unknown"): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}]


def test_a_dead_follower_is_not_waited_for() -> None:
    replicas = with_records(isr=(US, ANOTHER))
    replicas.follow(10)
    replicas.brokers_alive(US)
    assert delete(replicas, {key(): 4}) == [{key(): (4, ErrorCode.NONE)}]


def test_time_out_and_lost_leadership() -> None:
    replicas = with_records(isr=(US, ANOTHER))
    replicas.follow(10)
    late = delete(replicas, {key(): 4}, timeout_ms=500)
    lost = delete(replicas, {key(): 5}, timeout_ms=5000)
    replicas.pass_time(501)
    assert late == [{key(): (0, ErrorCode.REQUEST_TIMED_OUT)}]
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    assert lost == [{key(): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}]


def test_where_an_epoch_ends() -> None:
    replicas = with_records()
    replicas.lead(leader_epoch=3)
    replicas.append(("topic", 0, batch(2)))

    def ends(epoch: int, known: int = -1, topic: str = "topic") -> tuple[ErrorCode, int, int]:
        return replicas.manager.last_offset_for_leader_epoch(
            topic, 0, current_leader_epoch=known, leader_epoch=epoch, from_follower=False
        )

    assert ends(0) == (ErrorCode.NONE, 0, 10)
    assert ends(2, known=3) == (ErrorCode.NONE, 0, 10)
    assert ends(3) == (ErrorCode.NONE, 3, 12)
    assert ends(4) == (ErrorCode.NONE, -1, -1)
    assert ends(0, known=2) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ends(0, known=4) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ends(0, topic="unknown") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
