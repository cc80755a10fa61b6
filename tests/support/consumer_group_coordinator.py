"""A consumer group without a broker: its log, and what its members are told (KIP-848). Every change is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.coordinator.group.assignors.server_assignors import assignors_named
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import HeartbeatAnswer, HeartbeatTerms
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome
from barnabas.coordinator.group.consumer.heartbeat import check_heartbeat, heartbeat, leave
from barnabas.coordinator.group.consumer.replay import replay
from barnabas.coordinator.group.consumer.topics.group_topics import ClusterTopics, ResolvedRegularExpression
from barnabas.coordinator.group.consumer.topics.hash import TopicHashes
from barnabas.coordinator.group.consumer.update import ConsumerGroupUpdate, UpdateContext
from barnabas.coordinator.group.group_config import ConsumerGroupConfig, GroupCoordinatorConfig
from barnabas.metadata.metadata_image import MetadataImage, PartitionMetadata, TopicMetadata
from tests.support.mock_clock import MockClock

ASSIGNORS = assignors_named(("uniform", "range"))
Owned = dict[str, set[int]]


def topics_of(**counts: int) -> MetadataImage:
    topics = {
        name: TopicMetadata(
            name, topic_id(name), tuple(PartitionMetadata(n, 0, 0, (0,), (0,), (), 0) for n in range(count))
        )
        for name, count in counts.items()
    }
    return MetadataImage(topics=topics, topic_names={topic.topic_id: name for name, topic in topics.items()})


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


class ConsumerGroupCoordinator:
    """One group, its log, and what its members are told; every change is replayed from the log as well."""

    def __init__(self, **topics: int) -> None:
        self.group = ConsumerGroup("group")
        self.image = topics_of(**(topics or {"foo": 6}))
        self.config = ConsumerGroupConfig()
        self.now_ms = 1_000_000
        self.newest_topics_version = 0
        self.log: dict[bytes, bytes] = {}
        self.last: ConsumerOutcome[Any] | None = None
        self._hashes = TopicHashes()

    def context(self, check_regex: Callable[[str], None] = lambda regex: None) -> UpdateContext:
        topics = ClusterTopics(self.image, self._hashes)
        config, clock = GroupCoordinatorConfig(consumer=self.config), MockClock()
        return UpdateContext(topics, config, clock, ASSIGNORS, self.now_ms, self.newest_topics_version, check_regex)

    def beat(self, member: str, epoch: int, owned: Owned | None = None, **terms: Any) -> HeartbeatAnswer:
        ids = None if owned is None else {topic_id(name): frozenset(found) for name, found in owned.items()}
        asked = HeartbeatTerms("group", member, epoch, "client", "/127.0.0.1", owned=ids, **terms)
        check_heartbeat(asked, ASSIGNORS)
        outcome = heartbeat(self.group, asked, self.context())
        self.carry_out(outcome)
        return outcome.answer

    def join(self, member: str, *names: str, **terms: Any) -> HeartbeatAnswer:
        subscribed = names or ("foo",) if "subscribed_topic_regex" not in terms else None
        return self.beat(member, 0, {}, rebalance_timeout_ms=5000, subscribed_topic_names=subscribed, **terms)

    def leave(self, member: str, epoch: int = -1, instance: str | None = None) -> None:
        gone, outcome = leave(self.group, HeartbeatTerms("group", member, epoch, instance_id=instance))
        if outcome is not None:
            self.carry_out(outcome)
            return
        update = ConsumerGroupUpdate(self.group, self.context())
        update.fence_members([gone])
        self.carry_out(update.outcome(None))

    def resolve(self, **matched: set[str]) -> None:
        update = ConsumerGroupUpdate(self.group, self.context())
        update.resolve_regexes(
            {regex: ResolvedRegularExpression(frozenset(names), 1, self.now_ms) for regex, names in matched.items()}
        )
        self.carry_out(update.outcome(None))

    def carry_out(self, outcome: ConsumerOutcome[Any]) -> None:
        for key, value in outcome.records:
            replay(self.group, key, value)
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        if outcome.checked_image is not None:
            self.group.checked_image = outcome.checked_image
        self.last = outcome

    def settle(self, *members: str) -> None:
        """Heartbeats, with what each has been given, until nothing moves."""
        for _ in range(8):
            for member_id in members:
                member = self.group.members[member_id]
                owned = {name_of(key): set(found) for key, found in member.assigned_partitions.items()}
                self.beat(member_id, member.member_epoch, owned)

    def owned(self, member: str) -> Owned:
        assigned = self.group.members[member].assigned_partitions
        return {name_of(key): set(found) for key, found in assigned.items()}


def name_of(key: bytes) -> str:
    return key.rstrip(b"\1").decode()
