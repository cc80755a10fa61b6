"""The hash of keys, Murmur2 with Kafka's seed: every client must put a key on the same partition. Pure.

Kafka: Utils.murmur2.
"""

from __future__ import annotations

import functools
import struct

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF
_words = struct.Struct("<I").iter_unpack


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash. Kafka's int has the same bits, signed."""
    length = len(data)
    whole = length & ~3
    value = _SEED ^ length
    for (word,) in _words(data[:whole]):
        word = word * _FACTOR & _MASK  # noqa: PLW2901
        word = (word ^ word >> 24) * _FACTOR & _MASK  # noqa: PLW2901
        value = value * _FACTOR & _MASK ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    value = (value ^ value >> 13) * _FACTOR & _MASK
    return value ^ value >> 15


@functools.lru_cache(maxsize=8192)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key. Results are cached, because keys repeat. Kafka: partitionForKey."""
    # Kafka clears the sign bit of the hash rather than taking its absolute value, which would move half of all keys.
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
