"""Reads a range of a topic as one Arrow table: from a place to a place, without a group.

Called by users, on any thread; each call has a consumer of its own. No state. Kafka has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.arrow.record_tables import Rows, Table

Place: TypeAlias = int | str | datetime | Mapping[int, int]
"""An offset in all partitions, "earliest", "latest", a time, or an offset for each partition."""

_POLL_MS = 1_000
_PARTITION_FETCH_BYTES = 2 << 20
"""Larger than a consumer's default, as a whole range is wanted; with 8 MiB, new pages for answers cost a third more."""


class FetchTableSettings(ConsumerSettings, total=False):
    """The settings that `fetch_table(...)` takes by name: those of a consumer, and the columns of the table."""

    columns: Sequence[str] | None


def fetch_table(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    partitions: Iterable[int] | None = None,
    start: Place = "earliest",
    end: Place = "latest",
    **settings: Unpack[FetchTableSettings],
) -> Table:
    """Return the records at `start` <= offset < `end`, by partition and offset, as a pyarrow Table.

    partitions: None is all of the topic. "latest" is the end at the time of the call. A datetime is the first record of
    that time or later; one without a zone is in local time. An offset behind the present end is waited for.
    settings: those of ConsumerConfig, such as isolation_level, and `columns`, a list of names of
    `barnabas.clients.arrow.TABLE_SCHEMA`; without it, or with None, the table has all columns.

    Raises ValueError for an unknown partition, column or place, ApiError: UNKNOWN_TOPIC_OR_PARTITION for an unknown
    topic, OFFSET_OUT_OF_RANGE for a start that the log no longer has; ClientTimeout when nothing comes for
    `default_api_timeout_ms`, CorruptRecord.
    """
    columns = settings.pop("columns", None)
    chosen: dict[str, Any] = {
        "auto_offset_reset": "none",
        "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": _PARTITION_FETCH_BYTES,
        **settings,
    }
    config = ConsumerConfig(**chosen)
    if config.group_id is not None:
        raise ValueError(f"fetch_table reads without a group: leave group_id out (it is {config.group_id!r})")
    with Consumer(bootstrap_servers, config) as consumer:
        existing = [info.partition for info in consumer.partitions_for(topic)]
        if not existing:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}")
        wanted = existing if partitions is None else list(dict.fromkeys(partitions))
        if missing := sorted(set(wanted) - set(existing)):
            raise ValueError(f"{topic} has no partition {missing[0]}; it has {len(existing)}, counted from 0")
        assigned = [TopicPartition(topic, partition) for partition in sorted(wanted)]
        ends = _offsets(consumer, assigned, "end", end)
        return _RangeReader(consumer, columns, config.default_api_timeout_ms).read(
            _offsets(consumer, assigned, "start", start), ends
        )


class _RangeReader:
    """The reading of one range."""

    def __init__(self, consumer: Consumer, columns: Sequence[str] | None, timeout_ms: int) -> None:
        from barnabas.clients.arrow.record_tables import TableDecoder, rows_before  # noqa: PLC0415

        self._consumer = consumer
        self._timeout_ms = timeout_ms
        self._result = TableDecoder(columns)
        # Without them, rows beyond the end could not be recognized, nor rows be put in order.
        self._columns = tuple(dict.fromkeys([*self._result.columns, "partition", "offset"]))
        self._rows_before: Callable[[Rows, int], Rows] = rows_before

    def read(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Table:
        """Return the rows of all partitions. Raises ClientTimeout, ApiError, CorruptRecord."""
        left = {each for each, end in ends.items() if starts[each] < end}
        found: dict[int, list[Rows]] = {each.partition: [] for each in sorted(ends)}
        self._consumer.assign(left)
        for each in left:
            self._consumer.seek(each, starts[each])
        ends_by_partition = {each.partition: end for each, end in ends.items()}
        waited_ms = 0
        while left:
            before = {each: self._consumer.position(each) for each in left}
            for rows in self._consumer.poll_table(_POLL_MS, columns=self._columns).to_batches():
                partition = rows.column("partition")[0].as_py()
                cut = self._rows_before(rows, ends_by_partition[partition])
                found[partition].append(cut.select(list(self._result.columns)))
            after = {each: self._consumer.position(each) for each in left}
            waited_ms = 0 if after != before else waited_ms + _POLL_MS
            if waited_ms > self._timeout_ms:
                behind = min(left)
                raise ClientTimeout(f"No records of {behind} from offset {after[behind]} on, before {ends[behind]}")
            ended = {each for each in left if after[each] >= ends[each]}
            self._consumer.pause(ended)
            left -= ended
        return self._result.table(rows for pieces in found.values() for rows in pieces)


def _offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], role: str, place: Place
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition. Raises ValueError for one that is no place, ApiError."""
    if place == "earliest":
        return consumer.beginning_offsets(partitions)
    if place == "latest":
        return consumer.end_offsets(partitions)
    if isinstance(place, datetime):
        ends = consumer.end_offsets(partitions)
        times = dict.fromkeys(partitions, max(int(place.timestamp() * 1000), 0))
        return {
            each: ends[each] if entry is None else entry.offset
            for each, entry in consumer.offsets_for_times(times).items()
        }
    if isinstance(place, Mapping):
        if missing := [each.partition for each in partitions if each.partition not in place]:
            raise ValueError(f"{role} has no offset for partition {missing[0]}")
        offsets = {each: place[each.partition] for each in partitions}
    elif isinstance(place, int):
        offsets = dict.fromkeys(partitions, place)
    else:
        # An unknown word, most likely: a value of a type that is allowed.
        raise ValueError(f"{role} takes an offset, earliest, latest, a datetime or a mapping, not {place!r}")  # noqa: TRY004
    for each, offset in offsets.items():
        if offset < 0:
            raise ValueError(f"{role} must not be negative, not {offset} for partition {each.partition}")
    return offsets
