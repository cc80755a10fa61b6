"""Reads the entries of an index's page, native."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be

if TYPE_CHECKING:
    from mypy_extensions import i64

ENTRY_STRUCTS: Final = {8: Struct(">ii"), 12: Struct(">qi")}


def _number(page: bytes, size: i64, field: i64, place: i64) -> i64:
    at = place * size
    if field:
        return i64(read_i32_be(page, at + size - 4))
    if size == 8:
        return i64(read_i32_be(page, at))
    return read_i64_be(page, at)


def entry_at(page: bytes, size: i64, place: i64) -> tuple[i64, i64]:
    """Return the entry at a place of the page."""
    return _number(page, size, 0, place), _number(page, size, 1, place)


def entries_up_to(page: bytes, size: i64, field: i64, target: i64, count: i64) -> i64:
    """Return how many of the first `count` entries have a field of at most `target`, by halves."""
    low: i64 = 0
    high = count
    while low < high:
        middle = (low + high) >> 1
        if _number(page, size, field, middle) <= target:
            low = middle + 1
        else:
            high = middle
    return low
