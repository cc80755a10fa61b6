"""Plans the reset of a group's offsets: an offset for each partition, within what the partition holds.

Called by `barnabas groups reset-offsets` with an open `Admin`; changes nothing. `within` is pure.
Kafka: ConsumerGroupCommand.ConsumerGroupService.prepareOffsetsToReset, OffsetsUtils.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from barnabas.clients.admin.admin import Admin
from barnabas.clients.calls.offset_lookup import EARLIEST, LATEST
from barnabas.protocol.topic_partition import TopicPartition


class ResetTo(Enum):
    """The targets without a number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    """The committed offset, or the partition's end where none is committed."""


@dataclass(frozen=True)
class ToOffset:
    """The same offset in every partition."""

    offset: int


@dataclass(frozen=True)
class ToTimestamp:
    """The first record at or after a time in milliseconds since the epoch, or the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True)
class ShiftBy:
    """The committed offset, plus a number of records that may be negative."""

    count: int


Reset = ResetTo | ToOffset | ToTimestamp | ShiftBy | Mapping[TopicPartition, int]
"""The target of a reset. A mapping, such as one read from a file, has an offset for each partition."""


def plan_reset(
    admin: Admin, group_id: str, partitions: Collection[TopicPartition], to: Reset
) -> dict[TopicPartition, int]:
    """Return every partition's new offset, which is never outside of the partition's log.

    Raises ApiError, and ValueError for partitions that cannot be shifted because no offset is committed.
    """
    if to is ResetTo.EARLIEST:
        return _lookup(admin, partitions, EARLIEST)
    if to is ResetTo.LATEST:
        return _lookup(admin, partitions, LATEST)
    if to is ResetTo.CURRENT:
        committed = _committed(admin, group_id, partitions)
        return _lookup(admin, set(partitions) - committed.keys(), LATEST) | committed
    if isinstance(to, ToTimestamp):
        found = _lookup(admin, partitions, to.timestamp_ms)
        # Brokers answer -1 for a partition whose records are all older. Its reset goes to the end.
        return found | _lookup(admin, [partition for partition, offset in found.items() if offset < 0], LATEST)
    wanted: Mapping[TopicPartition, int]
    if isinstance(to, ToOffset):
        wanted = dict.fromkeys(partitions, to.offset)
    elif isinstance(to, ShiftBy):
        committed = _committed(admin, group_id, partitions)
        if missing := sorted(set(partitions) - committed.keys()):
            raise ValueError(
                f"Cannot shift offset for partition {missing[0]} since there is no current committed offset"
            )
        wanted = {partition: offset + to.count for partition, offset in committed.items()}
    else:
        wanted = to
    return within(wanted, _lookup(admin, wanted, EARLIEST), _lookup(admin, wanted, LATEST))


def within(
    wanted: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the wanted offset, or the nearest one that the partition holds."""
    return {partition: max(earliest[partition], min(offset, latest[partition])) for partition, offset in wanted.items()}


def _committed(admin: Admin, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    committed = admin.list_group_offsets(group_id, partitions)
    return {partition: each.offset for partition, each in committed.items()}


def _lookup(admin: Admin, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    return {partition: each.offset for partition, each in found.items()}
