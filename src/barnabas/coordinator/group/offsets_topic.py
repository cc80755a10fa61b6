"""The records of `__consumer_offsets` for offsets and classic groups (kinds 0 to 2), and the errors of appends to it.

Written by the offset service and the classic group, read while a coordinator loads and by the differential tests. Keys
and values begin with two bytes of version; a key's version says its kind: 0 and 1 a committed offset, 2 a group, 3 and
above KIP-848's (`consumer.consumer_group_records`). All versions are read. Committed offsets are many, so they have
functions of their own; the classes are for versions that are rare. The tables of errors are for all kinds: each append
takes one. Pure.
Kafka: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde, the schemas beside them (4.3; 3.9 writes the same).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from barnabas.coordinator.runtime.coordinator_log import ErrorTranslation
from barnabas.coordinator.runtime.record import decode_record, encode_record, version_of
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.messages.message_spec import CoordinatorMessage, StructSpec
from barnabas.protocol.schema import Int32, Int64, Uuid, field

OFFSET_KINDS: Final = (0, 1)
"""Versions of keys of committed offsets. Both look the same; 1 is written since Kafka 0.9."""
GROUP_KIND: Final = 2
"""Version of keys of classic groups."""
CONSUMER_GROUP_KINDS: Final = frozenset({*range(3, 9), 16})
"""Versions of keys of consumer groups' records, known here so that their module is loaded only if it is needed."""
NO_TIMESTAMP: Final = -1
LAST_TIMESTAMP: Final = 2**63 - 1
"""The latest time that a record can hold."""
NO_LEADER_EPOCH: Final = -1
LONGEST_STRING: Final = 0x7FFF
"""The most bytes of a string in a key or value of these kinds."""

_HEAD: Final = struct.Struct(">hh")
_PARTITION: Final = struct.Struct(">i")
_OFFSET_HEAD: Final = struct.Struct(">hqih")
_TIMESTAMP: Final = struct.Struct(">q")
_PLAIN_VALUE: Final = struct.Struct(">hqihq")
"""A value of version 3 without metadata, as nearly every commit has it."""
_GROUP_VALUE_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1
_USUAL_VERSION: Final = 3
_OLD_HEAD: Final = struct.Struct(">hqh")


class OffsetCommitKey(CoordinatorMessage, versions="0-1"):
    """The key of a committed offset."""

    group: str = field("0+")
    topic: str = field("0+")
    partition: Int32 = field("0+")


class OffsetCommitValue(CoordinatorMessage, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: Int64 = field("0+")
    # v3: the epoch of the last record that was consumed, to notice a truncated log (KIP-320).
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field("0+")
    commit_timestamp: Int64 = field("0+")
    # v1 alone: since v2 the time of expiry follows from the state of the group (KIP-211).
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", tag=0, tagged="4+", ignorable=True)


class GroupMetadataKey(CoordinatorMessage, versions="2"):
    """The key of a classic group."""

    group: str = field("2")


class GroupMetadataValue(CoordinatorMessage, versions="0-4", flexible="4+"):
    """A classic group: its generation and its members."""

    protocol_type: str = field("0+")
    generation: Int32 = field("0+")
    protocol: str | None = field("0+", nullable="0+")
    leader: str | None = field("0+", nullable="0+")
    # v2: the time since which an empty group's offsets may expire (KIP-211).
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[GroupMetadataValue.MemberMetadata] = field("0+")

    class MemberMetadata(StructSpec):
        member_id: str = field("0+")
        # v3: static membership (KIP-345).
        group_instance_id: str | None = field("3+", nullable="3+", default=None, ignorable=True)
        client_id: str = field("0+")
        client_host: str = field("0+")
        # v1: before, the session timeout stood for both (KIP-62).
        rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
        session_timeout: Int32 = field("0+")
        subscription: bytes = field("0+")
        assignment: bytes = field("0+")


class CommittedOffset(NamedTuple):
    """A group's offset in a partition. Times are wall clock; expire_timestamp_ms is -1 unless the client named one.

    leader_epoch: of the last record that was consumed, -1 if not known.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP


# -- groups


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group."""
    return _with_string(GROUP_KIND, group_id.encode())


def group_value(value: GroupMetadataValue) -> bytes:
    """Encode a classic group, in the version that Kafka 3.9 and 4 write."""
    return encode_record(value, _GROUP_VALUE_VERSION)


# -- committed offsets


def offset_key_prefix(group_id: str) -> bytes:
    """Return the common start of the keys of a group's offsets."""
    return _with_string(OFFSET_KINDS[-1], group_id.encode())


def offset_key(prefix: bytes, topic: bytes, partition: int) -> bytes:
    """Return the key of a committed offset. prefix: of its group (`offset_key_prefix`); topic: its encoded name."""
    return b"".join((prefix, len(topic).to_bytes(2, "big"), topic, _PARTITION.pack(partition)))


def offset_value(
    offset: int, leader_epoch: int, metadata: str, commit_timestamp_ms: int, expire_timestamp_ms: int = NO_TIMESTAMP
) -> bytes:
    """Encode a committed offset: version 3, or 1 for a time at which it expires, which 3 has no room for.

    The metadata must not have more than LONGEST_STRING bytes.
    """
    if expire_timestamp_ms != NO_TIMESTAMP:
        value = OffsetCommitValue(
            offset=offset, metadata=metadata, commit_timestamp=commit_timestamp_ms, expire_timestamp=expire_timestamp_ms
        )
        return encode_record(value, _EXPIRING_VERSION)
    if metadata:
        encoded = metadata.encode()
        head = _OFFSET_HEAD.pack(_USUAL_VERSION, offset, leader_epoch, len(encoded))
        return b"".join((head, encoded, _TIMESTAMP.pack(commit_timestamp_ms)))
    return _PLAIN_VALUE.pack(_USUAL_VERSION, offset, leader_epoch, 0, commit_timestamp_ms)


def committed_offset(value: bytes) -> CommittedOffset:
    """Decode a committed offset that this broker or Kafka wrote.

    Raises DecodeError when the value is malformed or its version unknown.
    """
    # Version 3 in line: it is the one that brokers write, and a fetch may decode thousands.
    if value[:2] == b"\x00\x03":
        try:
            _, offset, leader_epoch, length = _OFFSET_HEAD.unpack_from(value)
            end = _OFFSET_HEAD.size + length
            metadata = value[_OFFSET_HEAD.size : end].decode() if length else ""
            (timestamp_ms,) = _TIMESTAMP.unpack_from(value, end)
        except (struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"malformed offset: {error}") from None
        if length < 0:
            raise DecodeError(f"malformed offset: metadata of {length} bytes")
        return CommittedOffset(offset, leader_epoch, metadata, timestamp_ms)
    decoded = decode_record(OffsetCommitValue, value)
    return CommittedOffset(
        decoded.offset, decoded.leader_epoch, decoded.metadata, decoded.commit_timestamp, decoded.expire_timestamp
    )


def commit_times(value: bytes) -> tuple[int, int]:
    """Return when an offset was committed and when it expires (-1: by the broker's settings).

    Raises DecodeError when the value cannot be read.
    """
    # The commit time is the last field of version 3: the metadata before it need not be decoded.
    if value[:2] == b"\x00\x03" and len(value) >= _PLAIN_VALUE.size:
        return _TIMESTAMP.unpack_from(value, len(value) - _TIMESTAMP.size)[0], NO_TIMESTAMP
    decoded = committed_offset(value)
    return decoded.commit_timestamp_ms, decoded.expire_timestamp_ms


def is_readable_offset(value: bytes) -> bool:
    """Return whether this broker reads the value's version: the only part that loading looks at."""
    return len(value) > _OLD_HEAD.size and 0 <= version_of(value) <= OffsetCommitValue.max_version


def _with_string(kind: int, text: bytes) -> bytes:
    return _HEAD.pack(kind, len(text)) + text


# -- errors of the log, and what members of groups get instead, by the kind of the records

# Clients of a group know few errors. NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE make them find the coordinator
# again; the log's own errors would end them.
# Kafka: GroupMetadataManager.storeGroup, storeOffsets; for consumer groups CoordinatorOperationExceptionHelper.
_COMMON_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE_ERRORS: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


# After a timeout a commit is repeated as it is. A classic member joins again, since its assignment may not be stored. A
# member of a consumer group looks for the coordinator, and repeats its heartbeat.
OFFSET_ERRORS: Final[ErrorTranslation] = (
    _COMMON_ERRORS
    | dict.fromkeys(_TOO_LARGE_ERRORS, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    # Of a coordinator of transactions that was asked: the producer repeats the commit, and looks for no other one.
    | {ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
CLASSIC_GROUP_ERRORS: Final[ErrorTranslation] = (
    _COMMON_ERRORS
    | dict.fromkeys(_TOO_LARGE_ERRORS, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}
)
CONSUMER_GROUP_ERRORS: Final[ErrorTranslation] = (
    _COMMON_ERRORS
    | dict.fromkeys(_TOO_LARGE_ERRORS, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def commit_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a commit of offsets for its client, where the log or a coordinator says `code`."""
    return OFFSET_ERRORS.get(code, code)
