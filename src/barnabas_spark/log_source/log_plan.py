"""Plans a read of log files: which partitions, from which offset to which, in which splits.

Called by the reader on the driver, and by tests without Spark; every plan looks at the disk afresh. No lock.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.readonly.log_directories import ReadableLog, ReadonlyDirectories, offset_of_timestamp
from barnabas.storage.readonly.log_split import LogSplit, split_log, with_aborted
from barnabas.storage.readonly.log_transactions import aborted_ranges, last_stable_offset
from barnabas.storage.readonly.partition_log import BeyondLogEnd, LogUnreadable, PartitionLog, RecordsDeleted
from barnabas_spark.log_source.log_options import LogPosition, LogSourceOptions
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.reading.row_bounds import RowBounds
from barnabas_spark.topic_offsets import EARLIEST, LATEST

logger = logging.getLogger(__name__)

_ATTEMPTS = 10
"""The attempts to plan a partition whose segments are replaced meanwhile."""


def plan_splits(options: LogSourceOptions, bounds: RowBounds, files: Files) -> list[LogSplit]:
    """Return the splits of a read, in order of partitions and offsets.

    bounds: what the query's filters leave, for splits that cannot have such rows. Raises LogUnreadable, OptionError,
    OSError.
    """
    directories = ReadonlyDirectories(options.paths, files)
    logs = _logs(options, directories)
    _check_named(options, {log.topic_partition for log in logs})
    return [
        split
        for log in logs
        if bounds.may_hold_partition(log.topic_partition)
        for split in _plan_partition(options, bounds, directories, log)
    ]


def _logs(options: LogSourceOptions, directories: ReadonlyDirectories) -> list[PartitionLog]:
    """Return the partitions to read. Raises LogUnreadable."""
    if options.choice.pattern is not None:
        # As in Spark's Kafka source, a part of the name has to match. A pattern that matches none reads nothing.
        pattern = re.compile(options.choice.pattern)
        return directories.logs({topic for topic in directories.topics() if pattern.search(topic)})
    if not options.choice.assigned:
        return directories.logs(options.choice.names)
    logs = {log.topic_partition: log for log in directories.logs({key.topic for key in options.choice.assigned})}
    for key in options.choice.assigned:
        if key not in logs:
            raise LogUnreadable(f"option 'assign' names {key}, which has no directory in {', '.join(options.paths)}")
    return [logs[key] for key in options.choice.assigned]


def _check_named(options: LogSourceOptions, partitions: set[TopicPartition]) -> None:
    """Check that JSON options name exactly the partitions that are read. Raises OptionError."""
    for name, position in (("starting", options.starting), ("ending", options.ending)):
        for option, given in (
            (f"{name}Offsets", position.offsets),
            (f"{name}OffsetsByTimestamp", position.timestamps_ms),
        ):
            if given is None or given.keys() == partitions:
                continue
            missing, unknown = sorted(partitions - given.keys()), sorted(given.keys() - partitions)
            wrong = f"{missing[0]} is missing" if missing else f"{unknown[0]} is not read by this query"
            raise OptionError(f"option {option!r} must name exactly the partitions that are read: {wrong}")


def _plan_partition(
    options: LogSourceOptions, bounds: RowBounds, directories: ReadonlyDirectories, log: PartitionLog
) -> list[LogSplit]:
    """Return the splits of one partition. Raises LogUnreadable, OSError."""
    for _ in range(_ATTEMPTS):
        try:
            readable = directories.readable(log, to_log_end=options.to_log_end)
            return list(_splits(options, bounds, readable))
        except FileNotFoundError:
            # A segment was replaced or deleted between two looks at it.
            continue
    raise LogUnreadable(f"{log.topic_partition}: the segments in {log.directory} change faster than they are planned")


def _splits(options: LogSourceOptions, bounds: RowBounds, readable: ReadableLog) -> Iterator[LogSplit]:
    key = readable.log.topic_partition
    if options.read_committed:
        readable = readable._replace(end=max(readable.start, last_stable_offset(readable)))
    start = _start(options, readable)
    end = _end(options, readable)
    start, end = max(start, bounds.offsets.first), min(end, bounds.offsets.last + 1)
    if bounds.first_timestamp_ms is not None and start < end:
        found = offset_of_timestamp(readable, bounds.first_timestamp_ms)
        # Records in front of the first one that is new enough are all too old.
        start = end if found is None else max(start, found)
    aborted = aborted_ranges(readable.log, readable.segments) if options.read_committed else []
    for split in split_log(readable, start, end, options.split_bytes):
        yield with_aborted(split, aborted) if aborted else split
    logger.debug("%s: offsets %d to %d of %d to %d", key, start, end, readable.start, readable.end)


def _start(options: LogSourceOptions, readable: ReadableLog) -> int:
    """Return the first offset to read. Raises BeyondLogEnd, RecordsDeleted."""
    key, position = readable.log.topic_partition, options.starting
    timestamp = _timestamp(position, key)
    if timestamp is not None:
        found = offset_of_timestamp(readable, timestamp)
        if found is None and position.after_last_is_error:
            raise BeyondLogEnd(
                f"{key}: no record from time {timestamp} on up to offset {readable.end} in {readable.log.directory};"
                " option 'startingOffsetsByTimestampStrategy' = 'latest' reads nothing instead"
            )
        return readable.end if found is None else found
    offset = _offset(position.offsets, key)
    if offset is None or offset == EARLIEST:
        return readable.start
    if offset < readable.start:
        _lost(
            options,
            f"{key}: option 'startingOffsets' names offset {offset}; the log in {readable.log.directory} begins at"
            f" {readable.start}",
        )
        return readable.start
    return _checked(offset, "startingOffsets", readable)


def _end(options: LogSourceOptions, readable: ReadableLog) -> int:
    """Return the offset behind the last one to read. Raises BeyondLogEnd."""
    key, position = readable.log.topic_partition, options.ending
    timestamp = _timestamp(position, key)
    if timestamp is not None:
        found = offset_of_timestamp(readable, timestamp)
        return readable.end if found is None else found
    offset = _offset(position.offsets, key)
    if offset is None or offset == LATEST:
        return readable.end
    return _checked(offset, "endingOffsets", readable)


def _timestamp(position: LogPosition, key: TopicPartition) -> int | None:
    return position.timestamp_ms if position.timestamps_ms is None else position.timestamps_ms[key]


def _offset(offsets: Mapping[TopicPartition, int] | None, key: TopicPartition) -> int | None:
    return None if offsets is None else offsets[key]


def _checked(offset: int, option: str, readable: ReadableLog) -> int:
    """Return the offset. Raises BeyondLogEnd if it lies behind the end of what can be read."""
    if offset > readable.end:
        raise BeyondLogEnd(
            f"{readable.log.topic_partition}: option {option!r} names offset {offset}; the log in"
            f" {readable.log.directory} can be read up to {readable.end}"
        )
    return offset


def _lost(options: LogSourceOptions, text: str) -> None:
    """Report records that are gone: an error, or with `failOnDataLoss` = false a warning. Raises RecordsDeleted."""
    if options.fail_on_data_loss:
        raise RecordsDeleted(f"{text}. To go on with what is there, set option 'failOnDataLoss' to false")
    logger.warning("%s", text)
