"""Requests that wait until the metadata shows their topics."""

from __future__ import annotations

from barnabas.api.topic_changes import TopicChanges
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from tests.support.mock_clock import MockClock


class Creation:
    """A request that has created "t" with two partitions. `answers`: the unfinished topics of each answer."""

    def __init__(self, timeout_ms: int) -> None:
        self.clock = MockClock()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.metadata = MetadataCache(0)
        self.answers: list[set[str]] = []
        changes = TopicChanges(self.metadata, DelayedOperationPurgatory("topic", self.timer))
        self.metadata.subscribe(changes.metadata_changed)
        changes.when_partitions_added({"t": 2}, timeout_ms, lambda unfinished: self.answers.append(set(unfinished)))

    def elect(self, *leaders: int) -> None:
        states = [
            UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=index, leader=leader)
            for index, leader in enumerate(leaders)
        ]
        topic = UpdateMetadataRequest.UpdateMetadataTopicState("t", b"t" * 16, states)
        self.metadata.update_metadata(UpdateMetadataRequest(topic_states=[topic], live_brokers=[]))

    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.timer.advance()


def test_a_creation_is_answered_when_all_partitions_have_leaders() -> None:
    creation = Creation(500)
    creation.elect(0)
    creation.elect(0, -1)
    assert creation.answers == []
    creation.elect(0, 0)
    creation.wait(1_000)
    assert creation.answers == [set()]


def test_a_creation_whose_partitions_get_no_leader_times_out() -> None:
    creation = Creation(500)
    creation.elect(0, -1)
    creation.wait(400)
    assert creation.answers == []
    creation.wait(200)
    assert creation.answers == [{"t"}]


def test_a_creation_without_time_is_answered_at_once() -> None:
    assert Creation(0).answers == [{"t"}]
