"""Reads the entries of an index's page: two big-endian numbers, of 4 and 4 bytes or of 8 and 4. Pure.

The compiled build takes this module from `native/` (decisions/0009-compiled-build.md); `i64` means nothing here.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

ENTRY_STRUCTS: Final = {8: Struct(">ii"), 12: Struct(">qi")}
"""By the size of an entry."""


def entry_at(page: bytes, size: i64, place: i64) -> tuple[i64, i64]:
    """Return the entry at a place of the page; its entries have `size` bytes."""
    key, value = ENTRY_STRUCTS[size].unpack_from(page, place * size)
    return key, value


def entries_up_to(page: bytes, size: i64, field: i64, target: i64, count: i64) -> i64:
    """Return how many of the first `count` entries have a field 0 or 1 of at most `target`. The field only rises."""
    unpack = ENTRY_STRUCTS[size].unpack_from
    return bisect_right(range(count), target, key=lambda place: unpack(page, place * size)[field])
