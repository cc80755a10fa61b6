"""The bytes that consumers exchange through the classic group protocol: subscriptions and assignments.

They are members' metadata in JoinGroup and SyncGroup, when the protocol type is "consumer". Only consumers need them;
the coordinator reads them to answer questions about a group. Pure.

A newer version is read as the newest one known here: Kafka promises to add fields at the end only.

Kafka: ConsumerProtocol, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (versions 0 to 3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.protocol.codec_runtime import AS_JAVA
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.topic_partition import TopicPartition, by_topic

PROTOCOL_TYPE = "consumer"
LATEST_VERSION = 3
UNKNOWN_GENERATION = -1

_OWNED_PARTITIONS_SINCE = 1
_GENERATION_SINCE = 2
_RACK_SINCE = 3
_NULL = -1


@dataclass(frozen=True)
class Subscription:
    """The topics a member subscribes to, and the partitions it owned then. `group_instance_id` comes beside the
    bytes."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = UNKNOWN_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True)
class Assignment:
    """The partitions that a member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = LATEST_VERSION) -> bytes:
    """Return the metadata of a member, topics and partitions sorted as Kafka's clients do."""
    out = [struct.pack(">hi", version, len(subscription.topics))]
    out += [_string(topic) for topic in sorted(subscription.topics)]
    out.append(_nullable_bytes(subscription.user_data))
    if version >= _OWNED_PARTITIONS_SINCE:
        out.append(encode_partitions(sorted(subscription.owned_partitions)))
    if version >= _GENERATION_SINCE:
        out.append(struct.pack(">i", subscription.generation_id))
    if version >= _RACK_SINCE:
        out.append(_string(subscription.rack_id))
    return b"".join(out)


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Read a member's metadata. Raises DecodeError."""
    reader = FieldReader(data)
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= _OWNED_PARTITIONS_SINCE else ()
    generation_id = reader.int32() if version >= _GENERATION_SINCE else UNKNOWN_GENERATION
    rack_id = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(topics, user_data, owned, generation_id, rack_id or None, group_instance_id)


def decode_topics(data: bytes) -> tuple[str, ...]:
    """Read the topics of a member's metadata. Raises DecodeError.

    A coordinator reads only the fields of version 0, which all later ones begin with (Kafka: computeSubscribedTopics).
    """
    reader = FieldReader(data)
    reader.version()
    topics = tuple(reader.string() for _ in range(reader.count()))
    reader.nullable_bytes()
    return topics


def subscription_version(data: bytes) -> int:
    """Return the version of a member's metadata; its assignment must have the same. Raises DecodeError."""
    return FieldReader(data).version()


def encode_assignment(assignment: Assignment, version: int = LATEST_VERSION) -> bytes:
    """Return the assignment of a member, partitions grouped by topic in the order of their first appearance."""
    return struct.pack(">h", version) + encode_partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Read a member's assignment. Raises DecodeError."""
    reader = FieldReader(data)
    reader.version()
    return Assignment(reader.partitions(), reader.nullable_bytes())


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", _NULL)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _nullable_bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", _NULL) if data is None else struct.pack(">i", len(data)) + data


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return an array of topics, each with an array of partitions, in the order of their first appearance."""
    topics = by_topic(partitions)
    out = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        out += [_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(out)


class FieldReader:
    """A reader of fields, one after the other. Each length is checked, because another client wrote it."""

    # A copy: the bytes outlive the frame that they were part of.
    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._position = 0

    def version(self) -> int:
        """Read the leading version; a newer one counts as the newest known. Raises DecodeError."""
        version = self.int16()
        if version < 0:
            raise DecodeError(f"Unsupported version of the consumer protocol: {version}")
        return min(version, LATEST_VERSION)

    def int16(self) -> int:
        """Read two bytes. Raises DecodeError at the end."""
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        """Read four bytes. Raises DecodeError at the end."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def count(self) -> int:
        """Read the length of an array. Raises DecodeError when the rest cannot hold it."""
        count = self.int32()
        if not 0 <= count <= len(self._data) - self._position:  # whatever is counted takes a byte at least
            raise DecodeError(f"Impossible length of an array in the consumer protocol: {count}")
        return count

    def string(self) -> str:
        """Read a string. Raises DecodeError."""
        text = self.nullable_string()
        if text is None:
            raise DecodeError("A string in the consumer protocol is null")
        return text

    def nullable_string(self) -> str | None:
        """Read a string, or None; U+FFFD stands for what is not UTF-8. Raises DecodeError at the end."""
        length = self.int16()
        return None if length < 0 else str(self._take(length), "utf-8", AS_JAVA)

    def nullable_bytes(self) -> bytes | None:
        """Read bytes, or None. Raises DecodeError."""
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Read what `encode_partitions` wrote. Raises DecodeError."""
        found = []
        for _ in range(self.count()):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count())]
        return tuple(found)

    def _take(self, length: int) -> bytes:
        """Return the next bytes. Raises DecodeError when fewer are left."""
        start, self._position = self._position, self._position + length
        if self._position > len(self._data):
            raise DecodeError("Buffer underflow while parsing consumer protocol")
        return self._data[start : self._position]
