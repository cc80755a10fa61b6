"""Numbers that every request reads or counts: the first ones of a frame, and rows of counters.

In the compiled build, which takes this module from `native/` (decisions/0009-compiled-build.md), they are machine
integers: read from `bytes` by a load, counted in an array. Pure functions; a row is made and counted by one thread
(`row[i] += 1`), and any thread may read it through `listed`, a moment late at worst. No lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeAlias

Counts: TypeAlias = list[int]
Indexes: TypeAlias = bytes

_int32_in: Final[Callable[[bytes, int], tuple[int]]] = Struct(">i").unpack_from

request_start: Final[Callable[[bytes], tuple[int, int, int, int]]] = Struct(">hhih").unpack_from
"""Returns API key, version, correlation id and the client id's length, of a frame of at least ten bytes."""


def frame_size(received: bytes, position: int) -> int:
    """Return the size prefix of a frame at a position of which four bytes are there."""
    return _int32_in(received, position)[0]


def counts_of(numbers: Iterable[int]) -> Counts:
    """Return a row that begins with these numbers."""
    return list(numbers)


def listed(counts: Counts) -> list[int]:
    """Return the numbers of a row as they are now."""
    return list(counts)


def indexes_of(places: bytes) -> Indexes:
    """Return a table whose items are places in a row: `row[table[number]] += 1` counts a number."""
    return places
