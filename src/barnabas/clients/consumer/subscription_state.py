"""A consumer's subscription and rebalance listener, its assigned partitions, and its position in each of them.

Owned by the consumer's thread; no lock.

A position is in one of four stages: the group has to supply it (`needs_committed`), the partition's leader has to
supply it (`reset`), it is known but not checked against the leader's log (`is_validating`, or no `leader` yet), or it
is valid. Only partitions with a valid position are fetched, and of those only the ones that are neither paused nor
about to be revoked.

A position is checked because an unclean election may have cut the log (KIP-320). `leader` is the leader, with its
epoch, that the position was checked against. For example, a consumer has read up to offset 100 in leader epoch 5; the
next leader has epoch 6 and had only 80 records of epoch 5. Asked where epoch 5 ends, that leader answers 80: records 80
to 99 are lost, and other records may have these offsets now. So the position goes back to 80, or an error is raised.

Kafka: SubscriptionState, SubscriptionPattern, ConsumerRebalanceListener.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from barnabas.clients.consumer.offset_reset import OffsetReset
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node

_MIXED = "Subscription to topics, partitions and pattern are mutually exclusive"


class SubscriptionPattern(NamedTuple):
    """A regular expression that the group's coordinator matches against the names of its topics (KIP-848).

    Made by users, for `Consumer.subscribe`. It is in RE2's syntax, and has to match the whole name of a topic.
    """

    pattern: str


class RebalanceListener:
    """The base of the user's listeners, which override the methods of interest. Each call gets sorted partitions.

    Called on the consumer's thread, inside `poll`, `unsubscribe` and `close`; the listener may use the consumer. With
    an eager assignor, all partitions are revoked before any is assigned.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Take note of new partitions, and seek in them if needed. Called after every rebalance, even with none."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit the offsets of partitions that go to other members: this is the last occasion."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop work on partitions that may have new owners already: their offsets can no longer be committed.

        By default, lost partitions are handled like revoked ones.
        """
        self.on_partitions_revoked(partitions)


class SubscriptionMode(Enum):
    """The ways in which a consumer's partitions are chosen."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    SERVER_PATTERN = "pattern that the coordinator matches"
    ASSIGNED = "assigned by the user"


class LeaderAndEpoch(NamedTuple):
    """A partition's leader; epoch -1 from old brokers (Kafka: Metadata.LeaderAndEpoch)."""

    node: Node
    epoch: int


class PreferredReplica(NamedTuple):
    """A replica to read from, until a monotonic time in milliseconds."""

    node_id: int
    expires_ms: int


class LogView:
    """What answers to fetches have shown of a partition's log."""

    __slots__ = ("empty_at", "high_watermark", "start_offset")

    def __init__(self) -> None:
        self.start_offset: int | None = None
        self.high_watermark: int | None = None
        """The end of what this consumer may read, as the last answer has it: the last stable offset, where only
        committed records are read."""
        self.empty_at: int | None = None
        """The offset from which a node had no records, though the high watermark lies behind it."""

    def has_more(self, offset: int) -> bool:
        """Return whether an answer has shown that there are records from `offset` on."""
        return self.high_watermark is not None and self.high_watermark > offset != self.empty_at


class TopicPartitionState:
    """The position in a partition. `offset_epoch`: the leader epoch of the record before the offset.

    `reset`: the policy by which the offset is looked up, or None while no look-up is needed.
    """

    __slots__ = (
        "is_validating",
        "leader",
        "log",
        "needs_committed",
        "offset",
        "offset_epoch",
        "paused",
        "preferred_replica",
        "reset",
        "retry_ms",
        "revoked",
    )

    def __init__(self, *, needs_committed: bool) -> None:
        self.needs_committed = needs_committed
        self.offset: int | None = None
        self.offset_epoch = -1
        self.reset: OffsetReset | None = None
        self.paused = False
        self.revoked = False
        """Whether the partition is about to be revoked, so that no more of its records may be returned."""
        self.retry_ms = 0
        self.leader: LeaderAndEpoch | None = None
        """The leader that the position was checked against, or is checked against now."""
        self.is_validating = False
        """Whether that leader has not yet answered where its log ends in the epoch of the position."""
        self.preferred_replica: PreferredReplica | None = None
        """The replica that the leader named as closer to this consumer (KIP-392)."""
        self.log = LogView()

    @property
    def is_valid(self) -> bool:
        """Whether the position is known and checked."""
        return self.offset is not None and self.leader is not None and not self.is_validating

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched and returned."""
        return self.is_valid and not self.paused and not self.revoked

    def seek(self, offset: int, offset_epoch: int = -1) -> None:
        """Set the offset of the next record to return. It is checked against the leader's log before it is fetched."""
        self.offset, self.offset_epoch = offset, offset_epoch
        self.needs_committed = False
        self.reset = None
        self.leader = None
        self.is_validating = False
        self.retry_ms = 0

    def advance(self, offset: int, offset_epoch: int) -> None:
        """Go on behind records that were returned."""
        self.offset, self.offset_epoch = offset, offset_epoch

    def request_reset(self, reset: OffsetReset) -> None:
        """Forget the position, and have it looked up as `reset` says."""
        self.offset, self.offset_epoch = None, -1
        self.needs_committed = False
        self.reset = reset
        self.leader = None
        self.is_validating = False
        self.retry_ms = 0

    def check_leader(self, leader: LeaderAndEpoch, *, can_validate: bool) -> None:
        """Have the position checked if this is another leader, or the same one in another epoch.

        can_validate: whether the leader can answer where its log ends in an epoch.
        """
        if self.offset is None or leader == self.leader:
            return
        self.leader = leader
        self.is_validating = can_validate and self.offset_epoch >= 0 and leader.epoch >= 0
        self.preferred_replica = None
        self.retry_ms = 0


class SubscriptionState:
    """The state of one consumer. `has_group`: new partitions begin at their group's committed offsets."""

    def __init__(self, reset: OffsetReset, *, has_group: bool) -> None:
        self.default_reset = reset
        self._has_group = has_group
        self.type = SubscriptionMode.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics that the user named, or that match the pattern."""
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: SubscriptionPattern | None = None
        self.group_topics: frozenset[str] = frozenset()
        """The topics of all members, as long as this member leads: their changes cause a rebalance."""
        self.listener: RebalanceListener | None = None
        self.partitions: dict[TopicPartition, TopicPartitionState] = {}

    # -- choosing

    @property
    def is_auto_assigned(self) -> bool:
        """Whether the group decides which partitions are read."""
        return self.type in {SubscriptionMode.TOPICS, SubscriptionMode.PATTERN, SubscriptionMode.SERVER_PATTERN}

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics whose metadata the consumer needs."""
        if self.type is SubscriptionMode.ASSIGNED:
            return frozenset(each.topic for each in self.partitions)
        return self.topics | self.group_topics

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None) -> None:
        """Subscribe to topics. Raises RuntimeError if partitions or a pattern were chosen before."""
        self._set_type(SubscriptionMode.TOPICS)
        self.topics = frozenset(topics)
        self.group_topics &= self.topics
        self.listener = listener

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: RebalanceListener | None) -> None:
        """Subscribe to topics that match. Raises RuntimeError if partitions or topics were chosen before."""
        self._set_type(SubscriptionMode.PATTERN)
        self.pattern = pattern
        self.listener = listener

    def subscribe_server_pattern(self, pattern: SubscriptionPattern, listener: RebalanceListener | None) -> None:
        """Subscribe to the topics that the coordinator matches. Raises RuntimeError after another kind of choice."""
        self._set_type(SubscriptionMode.SERVER_PATTERN)
        self.server_pattern = pattern
        self.listener = listener

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions. Raises RuntimeError while subscribed."""
        self._set_type(SubscriptionMode.ASSIGNED)
        self.set_partitions(partitions)

    def unsubscribe(self) -> None:
        """Forget the subscription, the assignment and all positions."""
        self.type = SubscriptionMode.NONE
        self.topics = self.group_topics = frozenset()
        self.pattern = self.server_pattern = None
        self.listener = None
        self.partitions = {}

    def set_matched_topics(self, topics: Iterable[str]) -> None:
        """Set the topics that match the pattern now."""
        self.topics = frozenset(topics)

    def matches(self, topic: str) -> bool:
        """Return whether the topic, by its whole name, matches the pattern."""
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def fits(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether the subscription has the topics of all these partitions."""
        # A pattern that is matched here may have topics that this member's metadata does not show yet: the leader's was
        # newer.
        if self.pattern is not None:
            return all(self.matches(each.topic) for each in partitions)
        return all(each.topic in self.topics for each in partitions)

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay keep their positions, new ones need one."""
        old = self.partitions
        self.partitions = {}
        for each in partitions:
            state = old.get(each)
            if state is None:
                state = TopicPartitionState(needs_committed=self._has_group)
                if not self._has_group:
                    state.request_reset(self.default_reset)
            self.partitions[each] = state

    def _set_type(self, wanted: SubscriptionMode) -> None:
        """Set how partitions are chosen. Raises RuntimeError if they were chosen in another way before."""
        if self.type not in {SubscriptionMode.NONE, wanted}:
            raise RuntimeError(_MIXED)
        self.type = wanted

    # -- positions

    def state(self, topic_partition: TopicPartition) -> TopicPartitionState:
        """Return the state of an assigned partition. Raises LookupError for one that is not assigned."""
        try:
            return self.partitions[topic_partition]
        except KeyError:
            raise LookupError(f"No current assignment for partition {topic_partition}") from None

    def awaiting_committed(self) -> list[TopicPartition]:
        """Return the partitions whose position the group has to supply."""
        return [each for each, state in self.partitions.items() if state.needs_committed and not state.revoked]

    def awaiting_reset(self, now_ms: int) -> dict[TopicPartition, OffsetReset]:
        """Return the partitions whose position a leader has to supply, except those that wait for a backoff."""
        return {
            each: state.reset
            for each, state in self.partitions.items()
            if state.offset is None and state.reset is not None and state.retry_ms <= now_ms and not state.revoked
        }

    def awaiting_validation(self, now_ms: int) -> dict[TopicPartition, TopicPartitionState]:
        """Return the partitions whose position a leader has to check, except those that wait for a backoff."""
        return {
            each: state
            for each, state in self.partitions.items()
            if state.is_validating and state.retry_ms <= now_ms and not state.revoked
        }

    def has_all_positions(self) -> bool:
        """Return whether the position of every partition is known and checked."""
        return all(state.is_valid for state in self.partitions.values())

    def set_committed(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Begin at the group's committed offsets; without one, where `auto_offset_reset` says."""
        for topic_partition, offset in committed.items():
            state = self.partitions.get(topic_partition)
            # While the look-up was in flight, the partition was revoked, or the user sought another offset.
            if state is None or not state.needs_committed:
                continue
            if offset is None:
                state.request_reset(self.default_reset)
            else:
                state.seek(offset.offset, offset.leader_epoch)

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions to commit, so that a successor goes on behind the last record that was returned."""
        return {
            each: OffsetAndMetadata(state.offset, "", state.offset_epoch)
            for each, state in self.partitions.items()
            if state.offset is not None and not state.is_validating
        }

    def mark_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of partitions that are about to be committed and then revoked."""
        for each in partitions:
            if each in self.partitions:
                self.partitions[each].revoked = True
