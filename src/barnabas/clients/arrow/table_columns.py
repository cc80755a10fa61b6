"""The columns of a table that become records: found by name, checked before a row is sent, and brought to plain types.

Called by `table_producer`, on the thread that sends the table; a `TableColumns` is immutable after its construction.

A table may come in many chunks and types. Checks look at every row at once, before the first one is sent, so a table
with a bad row is refused whole. Conversions (text, views, dictionaries, large types to `binary`) happen later, for a
stretch of rows at a time, because they copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.clients.arrow.encoder import RECORD_OVERHEAD_BYTES, RecordColumns
from barnabas.clients.arrow.gatherer import HEADERS_TYPE
from barnabas.clients.arrow.varints import VARINT_BYTES, Integers

_BYTES_OR_TEXT = "binary or text (also large, view or dictionary-encoded)"
_BYTES_OR_TEXT_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
)
_HEADERS = "list<struct<key: string, value: binary>> or map<string, binary>"


class ColumnNames(NamedTuple):
    """The names of a table's columns. None: the records have no such field. Numbers hold for all rows."""

    value: str | None = "value"
    key: str | None = None
    headers: str | None = None
    partition: str | int | None = None
    timestamp: str | int | None = None
    """The column of timestamps, or milliseconds since 1970. None, and NULL in the column: the present time."""


class Stretch(NamedTuple):
    """Rows from `start` to `stop` of a table."""

    start: int
    stop: int


class TableColumns:
    """The columns of one table. `now_ms` is the timestamp of rows without one.

    Raises ValueError for a name that the table does not have once, or for a bad row; TypeError for a column of a type
    that records cannot hold.
    """

    def __init__(self, table: pa.Table, names: ColumnNames, now_ms: int) -> None:
        self.row_count: int = table.num_rows
        self._keys = _payloads(table, "key", names.key)
        self._values = _payloads(table, "value", names.value)
        self._headers = _headers(table, names.headers)
        self._timestamps = _numbers(table, "timestamp", names.timestamp, now_ms)
        self.partitions = _numbers(table, "partition", names.partition, -1)
        """The wanted partition of each row, or None without such a column; -1 where the column is NULL."""
        self.sizes = self._sizes()
        """The most bytes that each row takes as a record, uncompressed."""

    def check_sizes(self, limit_bytes: int, setting_name: str) -> None:
        """Check that each row fits into a request. Raises ValueError for the first row that does not."""
        if self.row_count and int(self.sizes.max()) > limit_bytes:
            row = int(np.argmax(self.sizes > limit_bytes))
            raise ValueError(
                f"row {row} takes up to {int(self.sizes[row])} bytes as a record, more than the {limit_bytes} that"
                f" {setting_name} allows"
            )

    def stretches(self, limit_bytes: int) -> Iterator[Stretch]:
        """Yield the rows in order, about `limit_bytes` of records at a time, but at least one row."""
        ends = np.cumsum(self.sizes)
        start = 0
        while start < self.row_count:
            behind = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, behind + limit_bytes, "right")), start + 1)
            yield Stretch(start, stop)
            start = stop

    def records(self, rows: Stretch) -> RecordColumns:
        """Return these rows as the encoder takes them."""
        start, stop = rows
        return RecordColumns(
            stop - start,
            _as_one_array(self._keys, rows, pa.binary()),
            _as_one_array(self._values, rows, pa.binary()),
            _as_one_array(self._headers, rows, HEADERS_TYPE),
            None if self._timestamps is None else self._timestamps[start:stop],
        )

    def _sizes(self) -> Integers:
        sizes = np.full(self.row_count, RECORD_OVERHEAD_BYTES, np.int64)
        for column in (self._keys, self._values):
            if column is not None:
                sizes += _joined(column, _byte_lengths)
        if self._headers is not None:
            sizes += _joined(self._headers, _header_bytes)
        return sizes


def as_table(data: object) -> pa.Table:
    """Return a table, a record batch or anything with an Arrow stream as a table, without a copy. Raises TypeError."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise TypeError(
        f"a table must be a pyarrow.Table, a pyarrow.RecordBatch or have __arrow_c_stream__, not {type(data).__name__}"
    )


# -- finding and checking


def _find(table: pa.Table, role: str, name: str) -> pa.ChunkedArray:
    """Return a column by its name. Raises ValueError unless the table has it once, TypeError for another name."""
    if not isinstance(name, str):
        raise TypeError(f"{role} must be the name of a column, not {name!r}")
    found = table.schema.get_all_field_indices(name)
    if len(found) != 1:
        has = f"{len(found)} columns" if found else "no column"
        raise ValueError(f"{role}: the table has {has} {name!r}; its columns are {', '.join(table.column_names)}")
    return table.column(found[0])


def _payloads(table: pa.Table, role: str, name: str | None) -> pa.ChunkedArray | None:
    """Return the column of keys or values. Raises TypeError for a column of neither bytes nor text, ValueError."""
    if name is None:
        return None
    column = _find(table, role, name)
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(test(plain) for test in _BYTES_OR_TEXT_TESTS):
        raise TypeError(f"{role}: column {name!r} is {column.type}, and must be {_BYTES_OR_TEXT}: cast it first")
    return None if pa.types.is_null(plain) else column


def _headers(table: pa.Table, name: str | None) -> pa.ChunkedArray | None:
    """Return the column of headers. Raises TypeError for another type, ValueError for a header without a key."""
    if name is None:
        return None
    column = _find(table, "headers", name)
    if pa.types.is_null(column.type):
        return None
    if not _holds_headers(column.type):
        raise TypeError(f"headers: column {name!r} is {column.type}, and must be {_HEADERS}")
    row = 0
    for chunk in column.chunks:
        plain = chunk.cast(HEADERS_TYPE)
        items = plain.flatten()
        keyless = pc.is_null(items.field("key")).to_numpy(zero_copy_only=False)
        if keyless.any():
            counts = pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False)
            row += int(np.searchsorted(np.cumsum(counts), int(np.argmax(keyless)), "right"))
            raise ValueError(f"headers: row {row} of column {name!r} has a header without a key; Kafka's need one")
        row += len(chunk)
    return column


def _holds_headers(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _is_text(kind.key_type) and _is_payload(kind.item_type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    item = kind.value_type
    fields = {item.field(index).name: item.field(index).type for index in range(item.num_fields)}
    return fields.keys() == {"key", "value"} and _is_text(fields["key"]) and _is_payload(fields["value"])


def _is_text(kind: pa.DataType) -> bool:
    return any((pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_string_view(kind)))


def _is_payload(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _BYTES_OR_TEXT_TESTS)


def _numbers(table: pa.Table, role: str, given: str | int | None, without: int) -> Integers | None:
    """Return the partitions, or the timestamps in milliseconds, of all rows: `without` for NULL.

    Raises TypeError for a column of another type, ValueError for a negative number.
    """
    if given is None and role == "partition":
        return None
    if given is None:
        return np.full(table.num_rows, without, np.int64)
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ValueError(f"{role} must not be negative, not {given}")
        return np.full(table.num_rows, given, np.int64)
    column = _find(table, role, given)  # type: ignore[arg-type]  # `_find` rejects a bool
    if pa.types.is_timestamp(column.type) and role == "timestamp":
        # Truncated to Kafka's milliseconds; a time without a zone is UTC, as everywhere in Arrow.
        column = column.cast(pa.timestamp("ms"), safe=False)
    elif not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        right = "timestamps or integers (milliseconds since 1970)" if role == "timestamp" else "integers"
        raise TypeError(f"{role}: column {given!r} is {column.type}, and must be {right}")
    numbers = column.cast(pa.int64(), safe=False)
    # An unsigned number beyond 63 bits turns negative, and is rejected with those that are.
    negative = pc.fill_null(pc.less(numbers, 0), False).to_numpy()
    if negative.any():
        row = int(np.argmax(negative))
        raise ValueError(f"{role}: row {row} of column {given!r} is {column[row].as_py()}, and must not be negative")
    return pc.fill_null(numbers, without).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


# -- measuring and converting


def _joined(column: pa.ChunkedArray, measure: Callable[[pa.Array], Integers]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *(measure(chunk) for chunk in column.chunks)])


def _byte_lengths(array: pa.Array) -> Integers:
    """Return the number of bytes of each entry, of any type of bytes or text; a NULL has 0."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        # A zero at the end, for the NULLs.
        of_values = np.append(_byte_lengths(array.dictionary), 0)
        indices = pc.fill_null(array.indices.cast(pa.int64()), len(of_values) - 1)
        lengths: Integers = of_values[indices.to_numpy(zero_copy_only=False)]
        return lengths
    if pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        # Arrow has no kernel for their lengths, which are the first four of each view's sixteen bytes.
        views = np.frombuffer(array.buffers()[1] or b"", np.uint32).reshape(-1, 4)
        lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
        if array.null_count:
            lengths[pc.is_null(array).to_numpy(zero_copy_only=False)] = 0
        return lengths
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    counted = pc.fill_null(pc.binary_length(array), 0)
    return counted.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _header_bytes(array: pa.Array) -> Integers:
    """Return the most bytes that the headers of each row take."""
    plain = array.cast(HEADERS_TYPE)
    counts = pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = plain.flatten()
    sizes = _byte_lengths(items.field("key")) + _byte_lengths(items.field("value")) + 2 * VARINT_BYTES
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return np.diff(ends[np.concatenate(([0], np.cumsum(counts)))])


def _as_one_array(column: pa.ChunkedArray | None, rows: Stretch, kind: pa.DataType) -> pa.Array | None:
    """Return these rows of a column as one array of a plain type; NULL is never converted to anything else."""
    if column is None:
        return None
    chunks = [chunk.cast(kind) for chunk in column.slice(rows.start, rows.stop - rows.start).chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
