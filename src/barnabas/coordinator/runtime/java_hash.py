"""Java's hash of a string, which says in which partition a group or a transactional id is kept.

Called by `CoordinatorPartitions` on any thread, for every request to a coordinator. Pure, but for a cache of results.
Kafka: String.hashCode, Utils.abs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_REMEMBERED_HASHES: Final = 1 << 16
_LONGEST_REMEMBERED: Final = 256
"""The longest id whose hash is cached, in characters: real ids are shorter, and an id may have 32 kB."""
_MASK: Final = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, made positive as by Kafka's Utils.abs."""
    return _remembered_hash(text) if len(text) <= _LONGEST_REMEMBERED else _hash(text)


def _hash(text: str) -> int:
    result = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        result = (31 * result + (encoded[position] << 8 | encoded[position + 1])) & _MASK
    # The smallest number of Java has no positive counterpart: Utils.abs makes it 0.
    if result == 0x80000000:
        return 0
    return result if result < 0x80000000 else 0x100000000 - result


_remembered_hash = lru_cache(_REMEMBERED_HASHES)(_hash)
