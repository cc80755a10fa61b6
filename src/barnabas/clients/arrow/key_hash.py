"""Kafka's murmur2 over a column of keys: the hash by which its default partitioner places keyed records.

Called by the Spark sink. A pure function; no state, no lock. Kafka: org.apache.kafka.common.utils.Utils.murmur2,
BuiltInPartitioner.partitionForKey.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barnabas.clients.arrow.varints import Bytes, Codes, Integers

_SEED = 0x9747B28C
# 64-bit numbers hold each product of two 32-bit numbers whole. The mask then cuts it as Java's int arithmetic does.
_MULTIPLIER = np.uint64(0x5BD1E995)
_MASK = np.uint64(0xFFFFFFFF)


def key_partitions(keys: pa.Array, partition_count: int) -> Integers:
    """Return the partition of each key of a binary column without NULLs."""
    return ((murmur2(keys) & np.uint64(0x7FFFFFFF)) % np.uint64(partition_count)).astype(np.int64)


def murmur2(keys: pa.Array) -> Codes:
    """Return the 32-bit hash of each key of a binary column without NULLs.

    Each round reads the next four bytes of every key, so there is a round for every four bytes of the longest key.
    """
    count = len(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    positions, lengths = offsets[:-1], np.diff(offsets)
    hashes = (np.uint64(_SEED) ^ lengths.astype(np.uint64)) & _MASK
    whole_words = lengths >> 2
    active = np.nonzero(whole_words)[0]
    word = 0
    while len(active):
        mixed = (_words(data, positions[active] + 4 * word) * _MULTIPLIER) & _MASK
        mixed = ((mixed ^ (mixed >> np.uint64(24))) * _MULTIPLIER) & _MASK
        hashes[active] = ((hashes[active] * _MULTIPLIER) & _MASK) ^ mixed
        word += 1
        active = active[whole_words[active] > word]
    tail = lengths & 3
    for index in (2, 1, 0):
        rows = np.nonzero(tail > index)[0]
        behind = data[positions[rows] + (lengths[rows] & ~3) + index].astype(np.uint64)
        hashes[rows] ^= behind << np.uint64(8 * index)
    rows = np.nonzero(tail)[0]
    hashes[rows] = (hashes[rows] * _MULTIPLIER) & _MASK
    hashes = ((hashes ^ (hashes >> np.uint64(13))) * _MULTIPLIER) & _MASK
    return hashes ^ (hashes >> np.uint64(15))


def _words(data: Bytes, positions: Integers) -> Codes:
    """Return the little-endian 32-bit words at `positions`."""
    word = data[positions].astype(np.uint64)
    for index in (1, 2, 3):
        word |= data[positions + index].astype(np.uint64) << np.uint64(8 * index)
    return word
