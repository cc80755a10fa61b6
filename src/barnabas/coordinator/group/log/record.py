"""A record of `__consumer_offsets`, as the coordinator writes it.

Made by the services of this package and by memberships; `GroupLog` appends them. Immutable.
Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorRecord.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

KeyAndValue: TypeAlias = tuple[bytes, bytes | None]
"""A record as a plain tuple: commits make them by the thousand, and a NamedTuple costs a call each."""


class GroupRecord(NamedTuple):
    """Key and value in the bytes of the log: two bytes of version, then the message. A value of None is a tombstone."""

    key: bytes
    value: bytes | None
