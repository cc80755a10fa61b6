"""Chooses a partition for each row of a table, and brings the rows of each partition together.

Called by `table_producer` and by the Spark sink, on the threads that send tables. One lock guards the sticky
partitions; all else are pure functions. A row goes to the partition that it names; or else to that of its key's hash,
as Kafka's default partitioner has it; or else, with the rows around it, to the topic's sticky partition.
Kafka: BuiltInPartitioner, Partitioner, Utils.murmur2.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.clients.arrow.encoder import RecordColumns
from barnabas.clients.arrow.varints import Bytes, Codes, Integers

_MURMUR2_SEED = 0x9747B28C
# 64-bit numbers hold each product of two 32-bit numbers whole. The mask then cuts it as Java's int arithmetic does.
_MURMUR2_MULTIPLIER = np.uint64(0x5BD1E995)
_MASK_OF_32_BITS = np.uint64(0xFFFFFFFF)

_ROWS_PER_RUN = 64
"""The mean length of runs of one partition from which on sorting the rows by partition does not pay."""


class TopicPartitions(NamedTuple):
    """The number of a topic's partitions, and those that have a leader."""

    partition_count: int
    available: Sequence[int]


class _Sticky:
    """The partition to which rows without a key of one topic go, and the bytes that have gone there."""

    __slots__ = ("partition", "produced_bytes")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.produced_bytes = 0


class RowPartitions:
    """The rule of one producer. `sticky_bytes`: the share of a partition before rows without a key go to another."""

    def __init__(self, random: Random, sticky_bytes: int, *, ignore_keys: bool = False) -> None:
        self._random = random
        self._sticky_bytes = sticky_bytes
        self._ignore_keys = ignore_keys
        self._lock = threading.Lock()
        self._sticky: dict[str, _Sticky] = {}

    def choose(
        self, topic: str, partitions: TopicPartitions, wanted: Integers | None, keys: pa.Array | None, sizes: Integers
    ) -> Integers:
        """Return the partition of each row.

        wanted: the partition that a row must go to, or -1. keys: a binary column. sizes: the bytes of each row.
        """
        chosen = np.full(len(sizes), -1, np.int64) if wanted is None else wanted.copy()
        undecided = chosen < 0
        if keys is not None and not self._ignore_keys:
            keyed = undecided & pc.is_valid(keys).to_numpy(zero_copy_only=False)
            if keyed.any():
                hashed = keys if keyed.all() else keys.filter(pa.array(keyed))
                chosen[keyed] = key_partitions(hashed, partitions.partition_count)
                undecided &= ~keyed
        rows = np.nonzero(undecided)[0]
        if len(rows):
            chosen[rows] = self._stick(topic, partitions, sizes[rows])
        return chosen

    def _stick(self, topic: str, partitions: TopicPartitions, sizes: Integers) -> Integers:
        """Return a partition for each row: the same one until it has its share, then another at random (KIP-794)."""
        chosen = np.empty(len(sizes), np.int64)
        ends = np.cumsum(sizes)
        candidates = partitions.available or range(partitions.partition_count)
        row = 0
        with self._lock:
            sticky = self._sticky.get(topic)
            if sticky is None or sticky.partition not in candidates:
                sticky = self._sticky[topic] = _Sticky(self._pick(candidates))
            while row < len(sizes):
                behind = int(ends[row - 1]) if row else 0
                room = self._sticky_bytes - sticky.produced_bytes
                stop = int(np.searchsorted(ends, behind + room, "right"))
                if stop == row and sticky.produced_bytes:
                    sticky.partition, sticky.produced_bytes = self._pick(candidates), 0
                    continue
                # A row that alone exceeds the share goes somewhere, too.
                stop = max(stop, row + 1)
                chosen[row:stop] = sticky.partition
                sticky.produced_bytes += int(ends[stop - 1]) - behind
                row = stop
        return chosen

    def _pick(self, candidates: Sequence[int]) -> int:
        return candidates[self._random.randrange(len(candidates))]


def key_partitions(keys: pa.Array, partition_count: int) -> Integers:
    """Return the partition of each key of a binary column without NULLs."""
    return ((murmur2(keys) & np.uint64(0x7FFFFFFF)) % np.uint64(partition_count)).astype(np.int64)


def murmur2(keys: pa.Array) -> Codes:
    """Return the 32-bit hash of each key of a binary column without NULLs: Kafka's murmur2.

    Each round reads the next four bytes of every key, so there is a round for every four bytes of the longest key.
    """
    count = len(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    positions, lengths = offsets[:-1], np.diff(offsets)
    hashes = (np.uint64(_MURMUR2_SEED) ^ lengths.astype(np.uint64)) & _MASK_OF_32_BITS
    whole_words = lengths >> 2
    active = np.nonzero(whole_words)[0]
    word = 0
    while len(active):
        mixed = (_words(data, positions[active] + 4 * word) * _MURMUR2_MULTIPLIER) & _MASK_OF_32_BITS
        mixed = ((mixed ^ (mixed >> np.uint64(24))) * _MURMUR2_MULTIPLIER) & _MASK_OF_32_BITS
        hashes[active] = ((hashes[active] * _MURMUR2_MULTIPLIER) & _MASK_OF_32_BITS) ^ mixed
        word += 1
        active = active[whole_words[active] > word]
    tail = lengths & 3
    for index in (2, 1, 0):
        rows = np.nonzero(tail > index)[0]
        behind = data[positions[rows] + (lengths[rows] & ~3) + index].astype(np.uint64)
        hashes[rows] ^= behind << np.uint64(8 * index)
    rows = np.nonzero(tail)[0]
    hashes[rows] = (hashes[rows] * _MURMUR2_MULTIPLIER) & _MASK_OF_32_BITS
    hashes = ((hashes ^ (hashes >> np.uint64(13))) * _MURMUR2_MULTIPLIER) & _MASK_OF_32_BITS
    return hashes ^ (hashes >> np.uint64(15))


def _words(data: Bytes, positions: Integers) -> Codes:
    """Return the little-endian 32-bit words at `positions`."""
    word = data[positions].astype(np.uint64)
    for index in (1, 2, 3):
        word |= data[positions + index].astype(np.uint64) << np.uint64(8 * index)
    return word


class GroupedRows(NamedTuple):
    """Rows in an order in which those of one partition lie together. A new run begins at each of `cuts`."""

    records: RecordColumns
    partitions: Integers
    cuts: list[int]
    order: Integers | None
    """The number of each row before it was moved, or None where every row kept its place."""


def grouped_rows(records: RecordColumns, partitions: Integers) -> GroupedRows:
    """Bring the rows of each partition together, in their order, so that all partitions' rows are encoded at once.

    Where the rows of one partition lie in long runs already, they stay where they are.
    """
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
