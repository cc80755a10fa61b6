"""The records of fetched batches as tables with `TABLE_SCHEMA`, one column a field of ConsumerRecord.

Called by the consumer's `poll_table`, on its thread. Pure functions; no state, no lock. `fetched_batches` makes the
columns of Spark's Kafka source of the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from barnabas.clients.arrow.decoder import RecordArrays, Wanted
from barnabas.clients.arrow.fetched_batches import MAX_OFFSET, decoded_chunks
from barnabas.clients.arrow.gatherer import HEADERS_TYPE, empty_headers, numbers, repeated_number, repeated_text
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch

TABLE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)
"""`timestamp` is NULL for a record without one. `timestamp_type`: 0 the producer's time, 1 the broker's, -1 none."""

_NO_TIMESTAMP_MS = -1


Table: TypeAlias = pa.Table
Rows: TypeAlias = pa.RecordBatch
Batch: TypeAlias = RecordBatch | LegacyBatch


class DecodedBatches(NamedTuple):
    """The rows of some batches of a partition.

    Without a limit that cut them, `next_offset` is None. Otherwise it follows the last row, and `left` are the batches
    from there on: the first may hold rows before it.
    """

    rows: list[Rows]
    row_count: int
    next_offset: int | None
    left: Sequence[Batch]


class TableDecoder:
    """The decoding of batches to the wanted columns. Immutable.

    Raises ValueError for an unknown column, TypeError for a string instead of a list of columns.
    """

    def __init__(self, columns: Sequence[str] | None) -> None:
        self.columns = _checked(columns)
        self._wanted = Wanted(*(name in self.columns for name in ("key", "value", "headers")))

    def decode(
        self, topic_partition: TopicPartition, batches: Sequence[Batch], start_offset: int, limit: int | None
    ) -> DecodedBatches:
        """Return the rows from `start_offset` on, at most `limit`, of batches of one buffer. Raises CorruptRecord."""
        rows = []
        count = 0
        for records in decoded_chunks(batches, start_offset, MAX_OFFSET, self._wanted):
            decoded = self._record_batch(records, topic_partition)
            room = decoded.num_rows if limit is None else limit - count
            if decoded.num_rows > room:
                rows.append(decoded.slice(0, room))
                next_offset = int(records.offsets[room])
                left = [batch for batch in batches if batch.next_offset > next_offset]
                return DecodedBatches(rows, count + room, next_offset, left)
            rows.append(decoded)
            count += decoded.num_rows
        return DecodedBatches(rows, count, None, ())

    def table(self, rows: Iterable[Rows]) -> Table:
        """Return one table of all rows, without a copy."""
        return pa.Table.from_batches(rows, self._schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([TABLE_SCHEMA.field(name) for name in self.columns])

    def _record_batch(self, records: RecordArrays, topic_partition: TopicPartition) -> Rows:
        count = len(records.offsets)
        makers: dict[str, Callable[[], pa.Array]] = {
            "topic": lambda: repeated_text(topic_partition.topic, count),
            "partition": lambda: repeated_number(topic_partition.partition, count),
            "offset": lambda: numbers(records.offsets, pa.int64()),
            "timestamp": lambda: _timestamps(records),
            "timestamp_type": lambda: numbers(records.timestamp_types.astype(np.int8), pa.int8()),
            "key": lambda: records.keys,
            "value": lambda: records.values,
            "headers": lambda: empty_headers(count) if records.headers is None else records.headers,
        }
        return pa.RecordBatch.from_arrays([makers[name]() for name in self.columns], schema=self._schema)


def rows_before(rows: Rows, end_offset: int) -> Rows:
    """Return the rows below `end_offset`, without a copy, of rows of one partition that have the column `offset`."""
    column = rows.column("offset")
    # As `to_numpy` would, without its import of pandas: see `gatherer`.
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    return rows.slice(0, int(np.searchsorted(offsets, end_offset)))


def _checked(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the wanted columns: all of TABLE_SCHEMA for None.

    Raises ValueError for an unknown column, TypeError for a string instead of a list.
    """
    if columns is None:
        return tuple(TABLE_SCHEMA.names)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not {columns!r}")
    for name in columns:
        if name not in TABLE_SCHEMA.names:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(TABLE_SCHEMA.names)}")
    return tuple(columns)


def _timestamps(records: RecordArrays) -> pa.Array:
    return numbers(records.timestamps, pa.timestamp("ms", tz="UTC"), missing=records.timestamps == _NO_TIMESTAMP_MS)
