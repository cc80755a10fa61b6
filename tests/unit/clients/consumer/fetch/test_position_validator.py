"""Positions checked against new leaders: what was cut, what was not, and what the user is told (KIP-320)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.errors import LogTruncation
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import SentRequest

TP0 = TopicPartition("t", 0)


class ElectedLeader:
    """A cluster whose leader of epoch 5 is replaced by one of epoch 6, which says where epoch 5 ends."""

    def __init__(self, *, knows_request: bool = True) -> None:
        extra = (OffsetForLeaderEpochRequest,) if knows_request else ()
        self.cluster = ScriptedCluster({"t": [0]}, extra=extra)
        self.cluster.handlers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = self._answer
        self.cluster.epoch = 5
        self.ends: list[tuple[int, int]] = []
        """What the leader answers to the next requests: epoch and end offset; -1, -1 for an unknown epoch."""
        self.error = ErrorCode.NONE
        self.log(0, 10)

    def log(self, first: int, end: int, epoch: int = 5) -> None:
        for offset in range(first, end):
            builder = RecordBatchBuilder(base_offset=offset, partition_leader_epoch=epoch)
            builder.append(1, None, b"%d" % offset)
            self.cluster.logs["t", 0] += builder.build()

    def consumer(self, **settings: Any) -> Consumer:
        consumer = Consumer(
            "", client=self.cluster.client(), **{"auto_offset_reset": "earliest", "max_poll_records": 8, **settings}
        )
        consumer.assign([TP0])
        consumer.seek(TP0, 0)
        assert len(consumer.poll(1000)) == 8
        return consumer

    def elect(self, consumer: Consumer, *ends: tuple[int, int]) -> None:
        """Let epoch 6 begin, of which the consumer hears with its metadata."""
        self.cluster.epoch = 6
        self.ends = list(ends)
        consumer._client.metadata.request_update()
        while consumer._client.metadata.update_requested():
            consumer._client.poll(100)

    def requests(self) -> list[Any]:
        return [each.body for each in self.cluster.sent(ApiKey.OFFSET_FOR_LEADER_EPOCH)]

    def _answer(self, request: SentRequest) -> OffsetForLeaderEpochResponse:
        epoch, end_offset = self.ends.pop(0)
        entry = OffsetForLeaderEpochResponse.EpochEndOffset(
            partition=0, leader_epoch=epoch, end_offset=end_offset, error_code=int(self.error)
        )
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic="t", partitions=[entry])]
        )


def test_a_log_that_was_not_cut_is_read_on_after_the_check() -> None:
    leader = ElectedLeader()
    consumer = leader.consumer()
    leader.elect(consumer, (5, 10))
    assert [record.offset for record in consumer.poll(1000)] == [8, 9]
    (request,) = leader.requests()
    (entry,) = request.topics[0].partitions
    assert (request.replica_id, entry.leader_epoch, entry.current_leader_epoch) == (-1, 5, 6)


def test_after_a_cut_the_position_goes_back_to_where_the_logs_part() -> None:
    leader = ElectedLeader()
    consumer = leader.consumer()
    leader.cluster.logs["t", 0] = b""
    leader.log(0, 6)
    leader.log(6, 9, epoch=6)
    leader.elect(consumer, (5, 6))
    assert [record.offset for record in consumer.poll(5000)] == [6, 7, 8]
    assert consumer.position(TP0) == 9


def test_a_log_that_never_had_the_epoch_resets_by_the_policy() -> None:
    leader = ElectedLeader()
    consumer = leader.consumer()
    leader.elect(consumer, (-1, -1))
    assert consumer.poll(5000)[0].offset == 0


@pytest.mark.parametrize(("end", "divergent"), [((5, 6), {TP0: OffsetAndMetadata(6, leader_epoch=5)}), ((-1, -1), {})])
def test_without_a_policy_the_user_decides(end: tuple[int, int], divergent: dict[TopicPartition, Any]) -> None:
    leader = ElectedLeader()
    consumer = leader.consumer(auto_offset_reset="none")
    leader.elect(consumer, end, end, end)
    with pytest.raises(LogTruncation) as raised:
        consumer.poll(5000)
    assert raised.value.divergent_offsets == divergent
    assert raised.value.positions == {TP0: 8}
    consumer.seek(TP0, 6)
    assert consumer.poll(5000)[0].offset == 6


def test_errors_that_pass_are_asked_again_and_the_right_to_describe_is_needed() -> None:
    leader = ElectedLeader()
    consumer = leader.consumer()
    leader.error = ErrorCode.FENCED_LEADER_EPOCH
    leader.elect(consumer, (5, 10), (5, 10))
    assert consumer.poll(50) == []
    leader.error = ErrorCode.NONE
    assert consumer.poll(5000)
    assert len(leader.requests()) == 2
    forbidden = ElectedLeader()
    consumer = forbidden.consumer()
    forbidden.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    forbidden.elect(consumer, (5, 10))
    with pytest.raises(ApiError, match="Topic: t"):
        consumer.poll(1000)


def test_a_leader_that_does_not_know_the_request_is_believed() -> None:
    leader = ElectedLeader(knows_request=False)
    consumer = leader.consumer()
    leader.elect(consumer)
    assert consumer.poll(1000)[0].offset == 8


def test_a_committed_epoch_is_checked_before_the_first_fetch() -> None:
    leader = ElectedLeader()
    consumer = leader.consumer()
    leader.ends = [(5, 10)]
    consumer.seek(TP0, OffsetAndMetadata(4, leader_epoch=5))
    assert consumer.poll(1000)[0].offset == 4
    assert len(leader.requests()) == 1
