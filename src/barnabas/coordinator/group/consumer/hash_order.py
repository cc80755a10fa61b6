"""The order in which a HashMap of Java holds strings: the order in which members are assigned.

Called when a consumer group is assigned. Pure. The order does not depend on when members joined or were loaded, and is
the one of Kafka. Kafka: TargetAssignmentBuilder's memberSpecs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SMALLEST_TABLE: Final = 16
_REMEMBERED: Final = 1 << 16


def hash_order(keys: Collection[str]) -> list[str]:
    """Return the keys in the order of a HashMap; keys that share a bucket keep their order."""
    # A HashMap doubles its table when it is fuller than 3/4; the number of keys alone decides its size.
    size = _SMALLEST_TABLE
    while 4 * len(keys) > 3 * size:
        size *= 2
    return sorted(keys, key=lambda key: _spread_hash(key) & (size - 1))


@lru_cache(_REMEMBERED)
def _spread_hash(text: str) -> int:
    """Return String.hashCode with its upper half mixed into the lower (HashMap.hash), as an unsigned number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & _MASK
    return value ^ value >> 16
