"""The records of a consumer group in `__consumer_offsets`: kinds 3 to 8 and 16 (KIP-848), byte for byte Kafka 4's.

Made by `ConsumerGroup` and the modules around it, read by `consumer.replay`, at run time as when loading. Pure.
A key is two bytes of kind and the key's fields, a value two bytes of version (always 0) and the value's fields.
Kafka: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde and ConsumerGroup*{Key,Value}.json of 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.message_spec import CoordinatorMessage, StructSpec
from barnabas.protocol.schema import Int8, Int32, Int64, Uuid, field

VALUE_VERSION: Final = 0
_VERSION = struct.Struct(">h")


class ConsumerGroupKind(IntEnum):
    """The kinds of records: the first two bytes of a key (Kafka: CoordinatorRecordType)."""

    GROUP_METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class GroupKey(CoordinatorMessage, versions="0"):
    """The key of kinds 3, 4 and 6, which belong to the whole group."""

    group_id: str = field("0")


class MemberKey(CoordinatorMessage, versions="0"):
    """The key of kinds 5, 7 and 8, which belong to a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class RegularExpressionKey(CoordinatorMessage, versions="0"):
    """The key of kind 16."""

    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupMetadataValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 3: the epoch, and a hash of the metadata of the group's topics at this epoch (KIP-1101)."""

    epoch: Int32 = field("0+")
    metadata_hash: Int64 = field("0+", tag=0, tagged="0+")


class PartitionMetadataValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 4: the metadata that Kafka 4.0 wrote instead of a hash. Removed with the next change of the group."""

    topics: list[PartitionMetadataValue.TopicMetadata] = field("0+")

    class TopicMetadata(StructSpec):
        topic_id: Uuid = field("0+")
        topic_name: str = field("0+")
        num_partitions: Int32 = field("0+")
        partition_metadata: list[PartitionMetadataValue.PartitionMetadata] = field("0+")

    class PartitionMetadata(StructSpec):
        partition: Int32 = field("0+")
        racks: list[str] = field("0+")


class MemberMetadataValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 5: the metadata of a member."""

    instance_id: str | None = field("0+", nullable="0+", default=None)
    rack_id: str | None = field("0+", nullable="0+", default=None)
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    subscribed_topic_regex: str | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: Int32 = field("0+", default=-1)
    server_assignor: str | None = field("0+", nullable="0+", default=None)
    # Without a default, because Kafka writes this field when it is null, too. A record without the field has an empty
    # value here, which counts as null (`ConsumerGroupMember.with_metadata`).
    classic_member_metadata: MemberMetadataValue.ClassicMemberMetadata | None = field(
        "0+", nullable="0+", tag=0, tagged="0+"
    )

    class ClassicMemberMetadata(StructSpec):
        session_timeout_ms: Int32 = field("0+")
        supported_protocols: list[MemberMetadataValue.ClassicProtocol] = field("0+")

    class ClassicProtocol(StructSpec):
        name: str = field("0+")
        metadata: bytes = field("0+")


class TargetAssignmentMetadataValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 6: the epoch of the target assignment, and when it was made (ms; KIP-1263)."""

    assignment_epoch: Int32 = field("0+")
    assignment_timestamp: Int64 = field("0+", tag=0, tagged="0+", ignorable=True)


class TargetAssignmentMemberValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 7: the target of a member."""

    topic_partitions: list[TargetAssignmentMemberValue.TopicPartition] = field("0+")

    class TopicPartition(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")


class CurrentMemberAssignmentValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 8: the epoch of a member, its partitions, and those that it has to give up first."""

    member_epoch: Int32 = field("0+")
    previous_member_epoch: Int32 = field("0+")
    state: Int8 = field("0+")
    assigned_partitions: list[CurrentMemberAssignmentValue.TopicPartitions] = field("0+")
    partitions_pending_revocation: list[CurrentMemberAssignmentValue.TopicPartitions] = field("0+")

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")
        # Since 4.3: the epoch in which the member got each partition (KIP-1251).
        assignment_epochs: list[Int32] | None = field("0+", nullable="0+", tag=0, tagged="0+", default=None)


class RegularExpressionValue(CoordinatorMessage, versions="0", flexible="0+"):
    """Kind 16: the topics that a regular expression matched, at which version of the metadata and when (ms)."""

    topics: list[str] = field("0+")
    version: Int64 = field("0+")
    timestamp: Int64 = field("0+")


AnyKey: TypeAlias = GroupKey | MemberKey | RegularExpressionKey
AnyValue: TypeAlias = (
    ConsumerGroupMetadataValue
    | PartitionMetadataValue
    | MemberMetadataValue
    | TargetAssignmentMetadataValue
    | TargetAssignmentMemberValue
    | CurrentMemberAssignmentValue
    | RegularExpressionValue
)

_SCHEMAS: Final[dict[ConsumerGroupKind, tuple[type[AnyKey], type[AnyValue]]]] = {
    ConsumerGroupKind.GROUP_METADATA: (GroupKey, ConsumerGroupMetadataValue),
    ConsumerGroupKind.PARTITION_METADATA: (GroupKey, PartitionMetadataValue),
    ConsumerGroupKind.MEMBER_METADATA: (MemberKey, MemberMetadataValue),
    ConsumerGroupKind.TARGET_ASSIGNMENT_METADATA: (GroupKey, TargetAssignmentMetadataValue),
    ConsumerGroupKind.TARGET_ASSIGNMENT_MEMBER: (MemberKey, TargetAssignmentMemberValue),
    ConsumerGroupKind.CURRENT_MEMBER_ASSIGNMENT: (MemberKey, CurrentMemberAssignmentValue),
    ConsumerGroupKind.REGULAR_EXPRESSION: (RegularExpressionKey, RegularExpressionValue),
}


def record(kind: ConsumerGroupKind, key: AnyKey, value: AnyValue) -> CoordinatorRecord:
    """Return the encoded key and value."""
    return CoordinatorRecord(_encoded(kind, key), _encoded(VALUE_VERSION, value))


def tombstone(kind: ConsumerGroupKind, key: AnyKey) -> CoordinatorRecord:
    """Return the tombstone of this key."""
    return CoordinatorRecord(_encoded(kind, key), None)


def decode_key(key: bytes) -> tuple[ConsumerGroupKind, AnyKey]:
    """Return a record's kind and key. Raises DecodeError for malformed keys and for kinds of other groups."""
    try:
        kind = ConsumerGroupKind(_VERSION.unpack_from(key)[0])
    except (ValueError, struct.error) as error:
        raise DecodeError(f"A key that begins with {bytes(key[:2])!r} is not of a consumer group") from error
    decoded, end = _SCHEMAS[kind][0].decode(key, 0, _VERSION.size)
    if end != len(key):
        raise DecodeError(f"A key of kind {kind} has {len(key)} bytes instead of {end}")
    return kind, decoded


def decode_value(kind: ConsumerGroupKind, value: bytes) -> AnyValue:
    """Return a record's value. Raises DecodeError for malformed values and for unknown versions."""
    try:
        version = _VERSION.unpack_from(value)[0]
    except struct.error as error:
        raise DecodeError(f"A value of kind {kind} ends early") from error
    if version != VALUE_VERSION:
        raise DecodeError(f"A value of kind {kind} has version {version}, which is unknown")
    return _SCHEMAS[kind][1].decode(value, version, _VERSION.size)[0]


def target_partitions(partitions: Mapping[bytes, Iterable[int]]) -> TargetAssignmentMemberValue:
    """Return the value of kind 7, with sorted partitions."""
    return TargetAssignmentMemberValue(
        topic_partitions=[
            TargetAssignmentMemberValue.TopicPartition(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
        ]
    )


def _encoded(version: int, message: AnyKey | AnyValue) -> bytes:
    return _VERSION.pack(version) + b"".join(message.encode(0))
