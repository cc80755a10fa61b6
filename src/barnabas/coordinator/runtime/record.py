"""A record of a coordinator's topic, and how its key and value are encoded: two bytes of version, then the message.

Made by the coordinators' services; `CoordinatorLog` appends them. Pure; the record is immutable.
Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorRecord.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias, TypeVar

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.message_spec import CoordinatorMessage

_VERSION: Final = struct.Struct(">h")

R = TypeVar("R", bound=CoordinatorMessage)

KeyAndValue: TypeAlias = tuple[bytes, bytes | None]
"""A record as a plain tuple: commits make them by the thousand, and a NamedTuple costs a call each."""


class CoordinatorRecord(NamedTuple):
    """Key and value in the bytes of the log: two bytes of version, then the message. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


def version_of(data: bytes) -> int:
    """Return the version at the start of a key or value. Raises DecodeError when it is shorter than two bytes."""
    if len(data) < 2:
        raise DecodeError(f"a key or value of {len(data)} bytes is too short for its version, which takes 2")
    return int.from_bytes(data[:2], "big", signed=True)


def encode_record(record: CoordinatorMessage, version: int) -> bytes:
    """Encode a key or value. Raises EncodeError when the version cannot hold it."""
    return b"".join((_VERSION.pack(version), *record.encode(version)))


def decode_record(kind: type[R], data: bytes) -> R:
    """Decode a key or value. Raises DecodeError when it is malformed or its version unknown."""
    version = version_of(data)
    if not kind.min_version <= version <= kind.max_version:
        raise DecodeError(f"{kind.__name__} has no version {version}")
    record, _ = kind.decode(data, version, 2)
    return record
