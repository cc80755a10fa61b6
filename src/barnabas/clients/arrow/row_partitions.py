"""The choice of a partition for each row of a table: the wanted one, the key's hash, or one for a whole batch.

Called by `table_producer` on the threads that send tables; one lock guards the sticky partitions. Kafka:
BuiltInPartitioner, Partitioner.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.clients.arrow.key_hash import key_partitions
from barnabas.clients.arrow.varints import Integers


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
