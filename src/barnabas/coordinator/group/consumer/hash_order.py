"""The order in which a HashMap of Java holds strings, for what depends on it: which members are considered first.

Called when a consumer group is assigned. Pure. It is the same every time, whatever the order in which members came or
were loaded, and the one in which Kafka considers them. Kafka: TargetAssignmentBuilder's memberSpecs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SMALLEST_TABLE: Final = 16
_REMEMBERED: Final = 1 << 16


def hash_order(keys: Collection[str]) -> list[str]:
    """The keys in the order of a HashMap that they were put into one by one; those that share a bucket as they come."""
    size = _SMALLEST_TABLE
    while 4 * len(keys) > 3 * size:
        size *= 2
    return sorted(keys, key=lambda key: _spread_hash(key) & (size - 1))


@lru_cache(_REMEMBERED)
def _spread_hash(text: str) -> int:
    """String.hashCode with its upper half mixed into the lower (HashMap.hash), as an unsigned number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & _MASK
    return value ^ value >> 16
