"""A consumer group's heartbeat and its answer; the member: metadata, epochs and partitions; its deadlines (KIP-848).

Heartbeats are made by the handler, answers by `consumer.heartbeat`. A member is made by the heartbeat, by JoinGroups of
classic members, and by the replay of records, which alone puts it into its `ConsumerGroup`. Immutable, but for the
deadlines. Pure. Kafka: ConsumerGroupHeartbeat{Request,Response}Data, ConsumerGroupMember, ModernGroupMember,
MemberState of 4.3, CoordinatorTimer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from barnabas.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupKind,
    CurrentMemberAssignmentValue,
    MemberKey,
    MemberMetadataValue,
    record,
)
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.purgatory.timing_wheel import TimerEntry

MayDescribe: TypeAlias = Callable[[Collection[str]], AbstractSet[str]]
"""Returns those of the topics (names) that a member is allowed to see."""
PartitionEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member got the partition. No topic without a partition."""


class HeartbeatTerms(NamedTuple):
    """A ConsumerGroupHeartbeat request. None, or -1 for the timeout (ms), leaves the member's value as it was.

    needs_member_id: the member must make its own id. owned: topic id -> partitions. may_describe: filters the topics
    that a regular expression matches.
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Collection[str] | None = None
    # v1: the broker resolves the regular expression, and the member names its own id (KIP-1082).
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[bytes, AbstractSet[int]] | None = None
    needs_member_id: bool = False
    may_describe: MayDescribe = frozenset

    @property
    def is_full(self) -> bool:
        """Whether the request has all values, as from a member that joins or that has missed an answer."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


def keeps_all_values(said: HeartbeatTerms | ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat leaves out all values that a group keeps of a member: they stay as they were."""
    return (
        said.subscribed_topic_names is None
        and said.subscribed_topic_regex is None
        and said.rebalance_timeout_ms == -1
        and said.server_assignor is None
        and said.rack_id is None
    )


class HeartbeatAnswer(NamedTuple):
    """The answer to a ConsumerGroupHeartbeat. assignment: None when the member knows it already."""

    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionEpochs | None = None


LEAVE_GROUP_EPOCH: Final = -1
"""The epoch in the heartbeat of a member that leaves for good."""
LEAVE_GROUP_STATIC_EPOCH: Final = -2
"""The epoch in the heartbeat of a static member that leaves for a while: its partitions wait for it."""


class TimerKind(Enum):
    """The kind of a deadline; the value is the reason in the log line when the member is removed."""

    SESSION = "the member session expired."
    REBALANCE = "it failed to transition from its epoch in time."
    JOIN = "the classic member failed to join within the rebalance timeout."
    SYNC = "the member failed to sync within timeout."


class MemberDeadline:
    """A time by which the member must be heard from.

    Kept by the `ConsumerGroup`, guarded by the group's lock; set and watched by `ConsumerGroupTimers`. The deadline
    moves with each heartbeat. The timer's entry stays, and is replaced when it fires too early.

    deadline_ns: of the monotonic clock. member_epoch: the deadline has no effect if the member has left this epoch by
    then. entry: the timer's, once there is one.
    """

    __slots__ = ("deadline_ns", "entry", "member_epoch")

    def __init__(self, deadline_ns: int, member_epoch: int | None) -> None:
        self.deadline_ns = deadline_ns
        self.member_epoch = member_epoch
        self.entry: TimerEntry | None = None


class ReconciliationState(IntEnum):
    """The progress of a member towards its part of the target assignment. The values are those of the records."""

    STABLE = 0
    """The member has its target, at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has partitions to give up first, and stays at its old epoch meanwhile."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not given up yet."""
    UNKNOWN = 127
    """A state that a later release has written."""


_STATES: Final = {int(state): state for state in ReconciliationState}


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The part of a member that only the classic protocol (JoinGroup) has. Kafka: ClassicMemberMetadata."""

    session_timeout_ms: int
    supported_protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata (a ConsumerProtocolSubscription) of each assignor, the preferred one first."""

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The names of the assignors."""
        return tuple(name for name, _ in self.supported_protocols)


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """One member of a group.

    member_epoch: -1 after the member left, -2 after it left for a while as a static member. previous_member_epoch: the
    epoch before, which the member may still name when an answer was lost. classic: None for a member of the new
    protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: ReconciliationState = ReconciliationState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned_partitions: PartitionEpochs = field(default_factory=dict)
    partitions_pending_revocation: PartitionEpochs = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    def is_reconciled_to(self, target_assignment_epoch: int) -> bool:
        """Return whether the member has its part of the target assignment of this epoch."""
        return self.state is ReconciliationState.STABLE and self.member_epoch == target_assignment_epoch

    def at_epoch(self, member_epoch: int) -> ConsumerGroupMember:
        """Return the member at another epoch; the present epoch becomes the previous one."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch in which the member got a partition, None if the partition is not its own."""
        epoch = self.assigned_partitions.get(topic_id, {}).get(partition)
        return self.partitions_pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def with_metadata(self, value: MemberMetadataValue) -> ConsumerGroupMember:
        """Return the member with the metadata of a record of kind 5."""
        kept = value.classic_member_metadata
        classic = None
        if kept is not None and kept.supported_protocols:
            protocols = tuple((protocol.name, protocol.metadata) for protocol in kept.supported_protocols)
            classic = ClassicMetadata(kept.session_timeout_ms, protocols)
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
        )

    def with_assignment(self, value: CurrentMemberAssignmentValue) -> ConsumerGroupMember:
        """Return the member with the epochs and partitions of a record of kind 8."""
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, ReconciliationState.UNKNOWN),
            assigned_partitions=_with_epochs(value.assigned_partitions, value.member_epoch),
            partitions_pending_revocation=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )

    def metadata_record(self, group_id: str) -> CoordinatorRecord:
        """Return the member's metadata as a record of kind 5."""
        classic = None
        if self.classic is not None:
            classic = MemberMetadataValue.ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    MemberMetadataValue.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in self.classic.supported_protocols
                ],
            )
        value = MemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topic_names),
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=classic,
        )
        return record(ConsumerGroupKind.MEMBER_METADATA, MemberKey(group_id, self.member_id), value)

    def assignment_record(self, group_id: str) -> CoordinatorRecord:
        """Return the member's epochs and partitions as a record of kind 8."""
        value = CurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_topic_partitions(self.assigned_partitions),
            partitions_pending_revocation=_topic_partitions(self.partitions_pending_revocation),
        )
        return record(ConsumerGroupKind.CURRENT_MEMBER_ASSIGNMENT, MemberKey(group_id, self.member_id), value)


def _with_epochs(
    topics: list[CurrentMemberAssignmentValue.TopicPartitions], member_epoch: int
) -> dict[bytes, dict[int, int]]:
    """Return partitions by topic. Coordinators before 4.3 wrote no epochs: then the member's epoch counts for all."""
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        # At least 0: the epoch of a member that has left is negative, and is none that a partition was assigned in.
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _topic_partitions(partitions: PartitionEpochs) -> list[CurrentMemberAssignmentValue.TopicPartitions]:
    topics = []
    for topic_id, epochs in partitions.items():
        numbers = sorted(epochs)
        topics.append(
            CurrentMemberAssignmentValue.TopicPartitions(
                topic_id=topic_id, partitions=numbers, assignment_epochs=[epochs[number] for number in numbers]
            )
        )
    return topics
