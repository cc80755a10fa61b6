"""Which offsets tasks read and how far a micro-batch goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import ReadLimits
from barnabas_spark.reading.offset_ranges import OffsetRange, limit_offsets, ranges_between, split_ranges, tasks_of

ranges = st.lists(
    st.builds(
        lambda p, start, size: OffsetRange("t", p, start, start + size),
        st.integers(0, 50),
        st.integers(0, 10**12),
        st.integers(1, 10**6),
    ),
    max_size=6,
    unique_by=lambda each: each.partition,
)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 10**6))
def test_cut_ranges_cover_the_same_offsets(whole: list[OffsetRange], at_least: int | None, at_most: int | None) -> None:
    if at_most is not None:
        at_most = max(at_most, max((each.size for each in whole), default=1) // 50 + 1)  # bounds the work
    pieces = split_ranges(whole, at_least, at_most)
    joined: list[OffsetRange] = []
    for piece in pieces:
        assert piece.size > 0
        if joined and (joined[-1].partition, joined[-1].end) == (piece.partition, piece.start):
            joined[-1] = OffsetRange("t", piece.partition, joined[-1].start, piece.end)
        else:
            joined.append(piece)
    assert joined == whole
    if at_most is not None:
        assert all(piece.size <= at_most for piece in pieces)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 10**6), st.integers(1, 10**6))
def test_short_ranges_share_tasks_within_the_limits(
    whole: list[OffsetRange], min_tasks: int | None, at_most: int | None, wanted: int
) -> None:
    if at_most is not None:
        at_most = max(at_most, wanted, max((each.size for each in whole), default=1) // 50 + 1)  # bounds the work
    alone = tasks_of(whole, ReadLimits(None, None, 0, min_tasks, at_most))
    shared = tasks_of(whole, ReadLimits(None, None, 0, min_tasks, at_most, wanted))
    assert [each for task in shared for each in task] == [each for task in alone for each in task]
    assert len(shared) >= min(min_tasks or 0, len(alone))
    sizes = [sum(each.size for each in task) for task in shared]
    if at_most is not None:
        assert all(size <= at_most for size in sizes)
    if at_most is None and min_tasks is None:
        assert all(size >= wanted for size in sizes[:-1])


def test_few_ranges_become_about_as_many_tasks_as_asked() -> None:
    pieces = split_ranges([OffsetRange("t", 0, 0, 300), OffsetRange("t", 1, 10, 110)], 4, None)
    assert [(piece.partition, piece.start, piece.end) for piece in pieces] == [
        (0, 0, 100),
        (0, 100, 200),
        (0, 200, 300),
        (1, 10, 110),
    ]


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1),
    st.integers(1, 3000),
)
def test_a_limit_is_shared_and_everything_waiting_moves_on(sizes: dict[int, tuple[int, int]], limit: int) -> None:
    start = {TopicPartition("t", p): begin for p, (begin, _) in sizes.items()}
    end = {TopicPartition("t", p): begin + size for p, (begin, size) in sizes.items()}
    limited = limit_offsets(start, end, limit)
    taken = {partition: limited[partition] - start[partition] for partition in start}
    assert all(0 <= taken[partition] <= end[partition] - start[partition] for partition in start)
    assert all(taken[partition] > 0 for partition in start if end[partition] > start[partition])
    assert sum(taken.values()) <= max(limit, len(sizes))
    if sum(size for _, size in sizes.values()) <= limit:
        assert limited == end


def test_ranges_are_where_something_lies_between() -> None:
    start = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7, TopicPartition("b", 0): 9}
    end = {TopicPartition("b", 0): 10, TopicPartition("a", 1): 7, TopicPartition("a", 0): 4}
    assert ranges_between(start, end) == [OffsetRange("b", 0, 9, 10)]
