"""A follower's requests built from changes alone say what requests built from all positions say."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.strategies import booleans, integers, sampled_from

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.fetch_request import FetchPosition, FetchRequestData
from barnabas.rpc.fetch_session_handler import FetchSessionHandler, WantedPositions

BY_ID = 17
IDS = {"a": (bytes(15) + b"\1", bytes(15) + b"\2"), "b": (bytes(15) + b"\3", ZERO_UUID)}
"""Two ids a topic, as if it was made anew; a topic of an old cluster has none."""


def said(request: FetchRequestData) -> tuple[Any, ...]:
    return (
        sorted(request.positions),
        request.place,
        sorted(request.forgotten),
        sorted(request.replaced),
        request.uses_topic_ids,
    )


class ChangesAgainstAll(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.wanted = WantedPositions()
        self.by_changes, self.by_all = FetchSessionHandler(0), FetchSessionHandler(0)
        self.session_id = 0

    @rule(topic=sampled_from("ab"), partition=integers(0, 2), offset=integers(0, 2), is_anew=booleans())
    def put(self, topic: str, partition: int, offset: int, is_anew: bool) -> None:
        place = TopicPartition(topic, partition)
        self.wanted.put(FetchPosition(place, offset, 1000, 3, IDS[topic][is_anew]))

    @rule(topic=sampled_from("ab"), partition=integers(0, 2))
    def drop(self, topic: str, partition: int) -> None:
        self.wanted.drop(TopicPartition(topic, partition))

    @rule(outcome=sampled_from(["answered", "answered", "answered", "refused", "lost"]))
    def request(self, outcome: str) -> None:
        positions = list(self.wanted)
        by_changes, by_all = self.by_changes.build_changes(self.wanted), self.by_all.build(positions)
        assert said(by_changes) == said(by_all)
        assert (
            set(self.by_changes.partitions)
            == set(self.by_all.partitions)
            == {each.topic_partition for each in positions}
        )
        version = BY_ID if by_all.uses_topic_ids else 12
        for handler in (self.by_changes, self.by_all):
            if outcome == "lost":
                handler.handle_error()
            elif outcome == "refused":
                assert not handler.handle_response(
                    FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH), version
                )
            else:
                assert handler.handle_response(self._answer(positions), version)

    def _answer(self, positions: list[FetchPosition]) -> FetchResponse:
        """All partitions: right for a request of all of them, and allowed for any other."""
        topics = [
            FetchResponse.FetchableTopicResponse(
                topic=each.topic_partition.topic,
                topic_id=each.topic_id,
                partitions=[FetchResponse.PartitionData(partition_index=each.topic_partition.partition)],
            )
            for each in positions
        ]
        return FetchResponse(session_id=77, responses=topics)


ChangesAgainstAll.TestCase.settings = settings(max_examples=200, stateful_step_count=20, deadline=None)
TestChangesAgainstAll = ChangesAgainstAll.TestCase
