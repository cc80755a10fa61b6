"""A record of a coordinator's topic.

Made by the coordinators' services; `CoordinatorLog` appends them. Immutable.
Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorRecord.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

KeyAndValue: TypeAlias = tuple[bytes, bytes | None]
"""A record as a plain tuple: commits make them by the thousand, and a NamedTuple costs a call each."""


class CoordinatorRecord(NamedTuple):
    """Key and value in the bytes of the log: two bytes of version, then the message. A value of None is a tombstone."""

    key: bytes
    value: bytes | None
