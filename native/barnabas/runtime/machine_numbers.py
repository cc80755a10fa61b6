"""Numbers that every request reads or counts, as machine integers: a load and a swap of bytes, a load and a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from librt.strings import read_i16_be, read_i32_be
from librt.vecs import vec

if TYPE_CHECKING:
    from mypy_extensions import i64

Counts: TypeAlias = "vec[i64]"
Indexes: TypeAlias = "vec[i64]"


def frame_size(received: bytes, position: i64) -> i64:
    """Return the size prefix of a frame at a position of which four bytes are there."""
    return i64(read_i32_be(received, position))


def request_start(frame: bytes) -> tuple[i64, i64, i64, i64]:
    """Return API key, version, correlation id and the client id's length, of a frame of at least ten bytes."""
    api_key, version = i64(read_i16_be(frame, 0)), i64(read_i16_be(frame, 2))
    return api_key, version, i64(read_i32_be(frame, 4)), i64(read_i16_be(frame, 8))


def counts_of(numbers: Iterable[int]) -> vec[i64]:
    """Return a row that begins with these numbers."""
    return vec[i64](list(numbers))


def listed(counts: vec[i64]) -> list[int]:
    """Return the numbers of a row as they are now."""
    return [count for count in counts]  # noqa: C416 - of an array of machine integers


def indexes_of(places: bytes) -> vec[i64]:
    """Return a table whose items are places in a row: `row[table[number]] += 1` counts a number."""
    return vec[i64](list(places))
