"""Brings the rows of each partition together, so that all partitions' rows can be encoded at once.

Called by `table_producer` and by the Spark sink, on their threads; pure functions, no lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.clients.arrow.encoder import RecordColumns
from barnabas.clients.arrow.varints import Integers

_ROWS_PER_RUN = 64
"""The mean length of runs of one partition from which on sorting the rows by partition does not pay."""


class GroupedRows(NamedTuple):
    """Rows in an order in which those of one partition lie together. A new run begins at each of `cuts`."""

    records: RecordColumns
    partitions: Integers
    cuts: list[int]
    order: Integers | None
    """The number of each row before it was moved, or None where every row kept its place."""


def grouped_rows(records: RecordColumns, partitions: Integers) -> GroupedRows:
    """Bring the rows of each partition together, in their order; long runs stay where they are."""
    runs = _run_starts(partitions)
    if len(runs) * _ROWS_PER_RUN <= len(partitions):
        return GroupedRows(records, partitions, runs, None)
    # numpy sorts 16-bit numbers by radix, many times as fast as wider ones. A stable sort keeps each partition's order.
    narrow = partitions.astype(np.int16) if int(partitions.max()) < 1 << 15 else partitions
    order = np.argsort(narrow, kind="stable")
    taken = pa.array(order)
    keys, values, headers = (None if column is None else column.take(taken) for column in records[1:4])
    timestamps = None if records.timestamps is None else records.timestamps[order]
    moved = RecordColumns(records.row_count, keys, values, headers, timestamps)
    partitions = partitions[order]
    return GroupedRows(moved, partitions, _run_starts(partitions), order.astype(np.int64))


def _run_starts(partitions: Integers) -> list[int]:
    starts: list[int] = (np.flatnonzero(np.diff(partitions)) + 1).tolist()
    return starts
