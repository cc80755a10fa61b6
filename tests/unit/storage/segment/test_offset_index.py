"""The offset index against a sorted list, on files that come and go."""

from __future__ import annotations

import bisect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.storage.segment.file import OpenFiles, SegmentFile
from barnabas.storage.segment.index_file import PAGE_ENTRIES, CorruptIndex, IndexPages
from barnabas.storage.segment.offset_index import OffsetIndex, OffsetPosition
from barnabas.storage.segment.time_index import TimeIndex, TimestampOffset
from tests.support.simulated_files import SimulatedFiles

BASE = 1000
INDEX = "/00000000000000001000.index"


def open_index(files: SimulatedFiles, *, is_new: bool = False, max_bytes: int = 1 << 20) -> OffsetIndex:
    return OffsetIndex(SegmentFile(INDEX, OpenFiles(files, 10)), BASE, max_bytes, IndexPages(4), is_new=is_new)


class IndexMachine(RuleBasedStateMachine):
    """Appends, truncations, flushes and reopenings; look-ups must always agree with the model."""

    @initialize()
    def begin(self) -> None:
        self.files = SimulatedFiles()
        self.index = open_index(self.files, is_new=True)
        self.model: list[tuple[int, int]] = []

    @rule(steps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), min_size=1, max_size=30))
    def append(self, steps: list[tuple[int, int]]) -> None:
        for offset_step, position_step in steps:
            offset, position = self.model[-1] if self.model else (BASE, 0)
            entry = (offset + offset_step, position + position_step)
            self.index.append(*entry)
            self.model.append(entry)

    @rule(count=st.integers(1, 2 * PAGE_ENTRIES))
    def append_many(self, count: int) -> None:
        self.append([(3, 7)] * count)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(BASE, self.model[-1][0] + 2 if self.model else BASE + 2))
        self.index.truncate_to(offset)
        self.model = [entry for entry in self.model if entry[0] < offset]

    @rule()
    def write(self) -> None:
        self.index.write_pending()

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = open_index(self.files)
        self.index.sanity_check()

    @rule()
    def forget(self) -> None:
        self.index.forget_tail()

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(BASE, self.model[-1][0] + 10 if self.model else BASE + 10))
        place = bisect.bisect_right(self.model, (offset, 1 << 40))
        before = self.model[place - 1] if place else (BASE, 0)
        assert self.index.lookup(offset) == before
        has_next = 0 < place < len(self.model) and before[0] != offset
        assert self.index.bounds(offset) == (before[1], self.model[place][1] if has_next else -1)

    @invariant()
    def same_entries(self) -> None:
        assert self.index.entries == len(self.model)
        assert self.index.last_offset == (self.model[-1][0] if self.model else BASE)
        for number in {0, len(self.model) // 2, len(self.model) - 1} if self.model else ():
            assert self.index.entry(number) == self.model[number]


TestOffsetIndexMachine = IndexMachine.TestCase
TestOffsetIndexMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_file_is_kafkas() -> None:
    files = SimulatedFiles()
    index = open_index(files, is_new=True)
    index.append(BASE + 5, 4200)
    index.append(BASE + 9, 8500)
    index.close()
    assert files.read_bytes(INDEX).hex() == "0000000500001068" + "0000000900002134"


def test_offsets_must_rise() -> None:
    index = open_index(SimulatedFiles(), is_new=True)
    index.append(BASE + 5, 10)
    with pytest.raises(ValueError, match="not above"):
        index.append(BASE + 5, 20)


def test_full_at_segment_index_bytes() -> None:
    index = open_index(SimulatedFiles(), is_new=True, max_bytes=17)
    assert not index.append(BASE + 1, 10)
    assert index.append(BASE + 2, 20)


@pytest.mark.parametrize("content", [b"\0" * 7, b"\0" * 8, bytes.fromhex("0000000500001068") + b"\0" * 16, b"\xff" * 8])
def test_impossible_content_is_noticed(content: bytes) -> None:
    """Half an entry; the zeros that a crash of Kafka leaves behind in a preallocated file; negative numbers."""
    files = SimulatedFiles()
    files.write_bytes(INDEX, content)
    with pytest.raises(CorruptIndex):
        open_index(files).sanity_check()


def test_full_disk_keeps_entries_in_memory() -> None:
    files = SimulatedFiles(capacity_bytes=0)
    index = open_index(files, is_new=True)
    for number in range(1, 3 * PAGE_ENTRIES):
        index.append(BASE + number, number)
    assert index.lookup(BASE + 700) == OffsetPosition(BASE + 700, 700)
    files.capacity_bytes = None
    index.close()
    assert open_index(files).entries == 3 * PAGE_ENTRIES - 1


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(1, 4)), max_size=60), st.integers(-3, 100))
def test_time_index_finds_the_last_entry_not_newer(steps: list[tuple[int, int]], target: int) -> None:
    files = SimulatedFiles()
    file = SegmentFile("/00000000000000001000.timeindex", OpenFiles(files, 10))
    index = TimeIndex(file, BASE, 1 << 20, IndexPages(4), is_new=True)
    model: list[tuple[int, int]] = []
    timestamp, offset = -1, BASE
    for time_step, offset_step in steps:
        timestamp, offset = max(timestamp + time_step, -1), offset + offset_step
        index.maybe_append(timestamp, offset)
        if timestamp > (model[-1][0] if model else -1):
            model.append((timestamp, offset))
    index.close()
    found = [entry for entry in model if entry[0] <= target]
    reopened = TimeIndex(SegmentFile(file.path, OpenFiles(files, 10)), BASE, 1 << 20, IndexPages(4))
    reopened.sanity_check()
    assert pair(reopened.lookup(target)) == (found[-1] if found else (-1, BASE))
    assert pair(reopened.last_entry) == (model[-1] if model else (-1, BASE))
    reopened.truncate_to(BASE + 50)
    assert pair(reopened.last_entry) == ([e for e in model if e[1] < BASE + 50] or [(-1, BASE)])[-1]


def pair(entry: TimestampOffset) -> tuple[int, int]:
    return entry.timestamp, entry.offset


def test_time_index_entry_is_kafkas() -> None:
    files = SimulatedFiles()
    path = "/00000000000000001000.timeindex"
    index = TimeIndex(SegmentFile(path, OpenFiles(files, 10)), BASE, 1 << 20, IndexPages(), is_new=True)
    index.maybe_append(1_700_000_000_000, BASE + 7)
    index.close()
    assert files.read_bytes(path).hex() == "0000018bcfe56800" + "00000007"
