"""Which segments are put together, how the throttle holds back, and who waits for whom when a cleaning is aborted."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.cleaner.choice import group_segments
from barnabas.storage.cleaner.cleaning_states import ABORTED, IN_PROGRESS, CleaningState, CleaningStep
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner_manager import LogCleaningAborted
from barnabas.storage.cleaner.work import LONGEST_SLEEP_SECONDS, CleanerThrottle
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.offset_index import MAX_RELATIVE_OFFSET
from tests.support.mock_clock import MockClock
from tests.unit.storage.cleaner_harness import CleanedBroker, append
from tests.unit.storage.log_harness import NOW, PARTITION


@dataclass
class Index:
    entries: int


class Indexes:
    def __init__(self, entries: int, time_entries: int) -> None:
        self.offsets = Index(entries)
        self.times = Index(time_entries)


class Segment:
    """As much of a segment as grouping looks at."""

    def __init__(self, base_offset: int, size: int, entries: int, time_entries: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.indexes = Indexes(entries, time_entries)


MAX_BYTES = 1000
MAX_INDEX_BYTES = 120

segments = st.lists(
    st.tuples(
        st.sampled_from([1, 100, MAX_RELATIVE_OFFSET // 2, MAX_RELATIVE_OFFSET]),
        st.integers(0, 600),
        st.integers(0, 15),
        st.integers(0, 10),
    ),
    max_size=15,
)


@given(segments)
def test_groups_fit_one_segment_and_no_group_could_take_its_neighbour(
    shapes: list[tuple[int, int, int, int]],
) -> None:
    row, base = [], 0
    for length, size, entries, time_entries in shapes:
        row.append(Segment(base, size, entries, time_entries))
        base += length
    bounds = [each.base_offset for each in row] + [base]
    ends = dict(pairwise(bounds))
    found = group_segments(cast("list[LogSegment]", row), MAX_BYTES, MAX_INDEX_BYTES, base)
    groups = cast("list[list[Segment]]", found)
    assert [segment for group in groups for segment in group] == row

    def fits(group: list[Segment]) -> bool:
        spans = [ends[each.base_offset] - 1 - group[0].base_offset for each in group[1:] if each.size]
        return (
            sum(each.size for each in group) <= MAX_BYTES
            and sum(each.indexes.offsets.entries for each in group) * 8 <= MAX_INDEX_BYTES
            and sum(each.indexes.times.entries for each in group) * 12 <= MAX_INDEX_BYTES
            and max(spans, default=0) <= MAX_RELATIVE_OFFSET
        )

    assert all(len(group) == 1 or fits(group) for group in groups)
    assert not any(fits([*group, following[0]]) for group, following in pairwise(groups))


def test_a_throttle_lets_through_what_it_may_per_second() -> None:
    clock, slept = MockClock(), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds * 1000)

    throttle = CleanerThrottle(1000.0, clock, sleep)
    started = clock.nanoseconds()
    for _ in range(100):
        throttle.add(100)
        clock.advance(10)
    throttle.add(0)
    rate = 100 * 100 / ((clock.nanoseconds() - started) / 1e9)
    assert 900 < rate < 1100
    assert len(slept) < 10
    free = CleanerThrottle(float("inf"), clock, sleep)
    count = len(slept)
    for _ in range(100):
        free.add(1 << 30)
        clock.advance(400)
    assert len(slept) == count


@pytest.mark.parametrize("rate", [0.0, 1e-300])
def test_a_throttle_that_lets_next_to_nothing_through_sleeps(rate: float) -> None:
    clock, slept = MockClock(), list[float]()
    throttle = CleanerThrottle(rate, clock, slept.append)
    clock.advance(400)
    throttle.add(1)
    assert slept == [LONGEST_SLEEP_SECONDS]


def test_settings_are_shared_among_threads_and_checked() -> None:
    config = CleanerConfig(
        threads=4, dedupe_buffer_bytes=4000, io_buffer_bytes=8000, io_max_bytes_per_second=1000.0, load_factor=0.5
    )
    assert (config.map_bytes_per_thread, config.buffer_bytes_per_thread) == (1000, 1000)
    assert config.bytes_per_second_per_thread == 250.0
    config.check()
    with pytest.raises(ValueError, match="offset map is too small to fit in even a single message"):
        CleanerConfig(threads=4, dedupe_buffer_bytes=200, load_factor=0.5).check()


def test_whoever_aborts_waits_for_the_cleaner_and_others_for_him() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    manager = broker.cleaner.manager
    cleanable, _ = manager.grab_filthiest_log()
    assert cleanable is not None
    assert manager.state(PARTITION) == IN_PROGRESS
    paused = threading.Semaphore(0)

    def pause() -> None:
        manager.abort_and_pause(PARTITION)
        paused.release()

    threads = [threading.Thread(target=pause) for _ in range(3)]
    for thread in threads:
        thread.start()
    with manager._changed:
        assert manager._changed.wait_for(lambda: manager.state(PARTITION) == ABORTED, 30)
    with pytest.raises(LogCleaningAborted):
        manager.check_aborted(PARTITION)
    assert not paused.acquire(blocking=False)
    manager.done_cleaning(log, 2)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert manager.state(PARTITION) == CleaningState(CleaningStep.PAUSED, 3)
    assert manager.first_dirty_offset(log) is None  # an aborted cleaning is not noted
    manager.resume([PARTITION] * 3)
    assert broker.clean()


def test_retention_and_the_cleaner_keep_apart() -> None:
    broker = CleanedBroker(cleanup_policy="delete")
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    paused = broker.cleaner.manager.pause_not_compacted()
    assert paused == [log]
    log.update_config(CleanedBroker().config)  # compacted from now on
    assert not broker.clean()
    broker.cleaner.manager.resume([log.topic_partition])
    assert broker.clean()
