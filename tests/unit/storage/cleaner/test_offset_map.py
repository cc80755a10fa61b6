"""Both maps of newest offsets do what a dictionary does, within their memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.cleaner.config import SKIMPY_BYTES_PER_ENTRY
from barnabas.storage.cleaner.offset_map import (
    EXACT_BYTES_PER_ENTRY,
    LONGEST_PLAIN_KEY,
    ExactOffsetMap,
    OffsetMap,
    SkimpyOffsetMap,
    offset_map_for,
)

MAPS: list[Callable[[int], OffsetMap]] = [
    lambda slots: ExactOffsetMap(slots * EXACT_BYTES_PER_ENTRY),
    lambda slots: SkimpyOffsetMap(slots * SKIMPY_BYTES_PER_ENTRY),
]
NAMES = ["exact", "skimpy"]

keys = st.one_of(st.binary(max_size=3), st.binary(min_size=LONGEST_PLAIN_KEY - 1, max_size=LONGEST_PLAIN_KEY + 2))


@pytest.mark.parametrize("make", MAPS, ids=NAMES)
@given(puts=st.lists(keys, min_size=1, max_size=60), asked=st.lists(keys, max_size=20), bulk=st.booleans())
def test_a_map_answers_as_a_dictionary(
    make: Callable[[int], OffsetMap], puts: list[bytes], asked: list[bytes], bulk: bool
) -> None:
    model = {key: offset for offset, key in enumerate(puts)}
    offsets = make(len(model))  # full to the last place
    if bulk:
        offsets.put_all(puts, range(len(puts)))
    else:
        for offset, key in enumerate(puts):
            offsets.put(key, offset)
    assert len(offsets) == len(model)
    assert offsets.utilization == 1.0
    assert offsets.latest_offset == len(puts) - 1
    assert offsets.newest(puts + asked) == [model.get(key, -1) for key in puts + asked]


def test_a_full_skimpy_map_refuses_new_keys_and_takes_old_ones() -> None:
    offsets = SkimpyOffsetMap(3 * SKIMPY_BYTES_PER_ENTRY)
    offsets.put_all([b"a", b"b", b"c"], [0, 1, 2])
    offsets.put(b"b", 3)
    with pytest.raises(ValueError, match="Attempted to add a new entry to a full offset map, entries: 3, slots: 3"):
        offsets.put(b"d", 4)
    assert offsets.newest([b"a", b"b", b"c", b"d"]) == [0, 3, 2, -1]


def test_the_exact_map_keeps_to_its_memory() -> None:
    entries = 30_000
    offsets = ExactOffsetMap(entries * EXACT_BYTES_PER_ENTRY)
    first = 5_000_000_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(entries):
            offsets.put(b"%0*d" % (LONGEST_PLAIN_KEY, number), first + number)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= entries * EXACT_BYTES_PER_ENTRY


def test_the_quick_map_is_chosen_where_it_fits() -> None:
    memory = 1000 * EXACT_BYTES_PER_ENTRY
    assert isinstance(offset_map_for(memory, 0.9, 5, 900), ExactOffsetMap)
    assert isinstance(offset_map_for(memory, 0.9, 5, 901), SkimpyOffsetMap)


@given(puts=st.lists(st.lists(keys, max_size=9), max_size=9), start=st.integers(0, 5))
def test_the_quick_map_knows_what_is_superseded(puts: list[list[bytes]], start: int) -> None:
    flat = [key for keys in puts for key in keys]
    offsets = ExactOffsetMap(100 * EXACT_BYTES_PER_ENTRY, start, len(flat) + 1)
    at = start
    for each in puts:
        offsets.put_all(each, range(at, at + len(each)), in_order=True)
        at += len(each)
    offsets.finish()
    assert offsets.superseded == bytes(key in flat[place + 1 :] for place, key in enumerate(flat)) + b"\0"


@pytest.mark.parametrize(
    ("second", "in_order"), [([3, 4], True), ([5, 7], False), ([9, 10], True)], ids=["again", "a gap", "behind the end"]
)
def test_offsets_that_are_not_in_order_leave_it_unknown(second: list[int], in_order: bool) -> None:
    offsets = ExactOffsetMap(100 * EXACT_BYTES_PER_ENTRY, 0, 10)
    offsets.put_all([b"a", b"b"], [2, 3], in_order=True)
    offsets.put_all([b"a", b"b"], second, in_order=in_order)
    offsets.finish()
    assert offsets.superseded is None
