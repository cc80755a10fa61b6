"""Cuts a log into pieces that tasks read side by side: at segments, and within large ones where the index has entries.

Used by the log source's planner on its thread; pure but for lookups in indexes. No lock.

For example, a partition has segments from 0 (1 GiB) and from 900 (300 MiB), 1,200 is its end, and a split has 512 MiB.
The index of the first segment says that a batch with last offset 449 lies at 536,874,011, which is the first entry
behind 512 MiB; the header there says that it begins at 440. The splits are offsets 0-439, 440-899 and 900-1,199.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.readonly.log_directories import ReadableLog
from barnabas.storage.readonly.log_transactions import AbortedRange
from barnabas.storage.readonly.partition_log import Cut, ListedSegment


@dataclass(frozen=True, slots=True)
class LogSplit:
    """The offsets from `start_offset` up to, not including, `end_offset`, and where they lay when this was planned.

    The offsets are the task; path, file id and positions are a shortcut, valid as long as the file is the same.
    """

    topic_partition: TopicPartition
    directory: str
    start_offset: int
    end_offset: int
    path: str
    file_id: int
    position: int
    end_position: int
    """The end of the bytes that belong to this split."""
    ends_log: bool
    """Whether the end lies in the newest segment, whose last batch must reach it."""
    aborted: tuple[AbortedRange, ...] = ()
    """The aborted transactions whose records are left out."""


def split_log(readable: ReadableLog, start: int, end: int, split_bytes: int) -> Iterator[LogSplit]:
    """Yield splits of about `split_bytes` with the offsets from `start` up to, not including, `end`.

    Raises LogUnreadable, OSError.
    """
    segments = readable.segments
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        first = max(start, segment.base_offset)
        behind = end if is_last else min(end, segments[number + 1].base_offset)
        if first >= behind or not segment.size:
            continue
        position = readable.log.cut_before(segment, first).position if first > segment.base_offset else 0
        cuts = list(_cuts(readable, segment, behind, position, split_bytes))
        places = [Cut(first, position), *cuts, Cut(behind, segment.size)]
        for here, there in pairwise(places):
            yield LogSplit(
                readable.log.topic_partition,
                readable.log.directory,
                here.offset,
                there.offset,
                segment.path,
                segment.file_id,
                here.position,
                there.position,
                ends_log=is_last and there is places[-1],
            )


def _cuts(readable: ReadableLog, segment: ListedSegment, behind: int, position: int, split_bytes: int) -> Iterator[Cut]:
    """Yield the places at which a segment is cut, from `position` up to offset `behind`."""
    hints = readable.log.offset_hints(segment)
    # A rest of less than half a split stays with the piece before it.
    while position + split_bytes + split_bytes // 2 < segment.size:
        cut = readable.log.cut_from(segment, hints, position + split_bytes)
        if cut is None or cut.offset >= behind or cut.position <= position:
            return
        yield cut
        position = cut.position


def with_aborted(split: LogSplit, aborted: list[AbortedRange]) -> LogSplit:
    """Return the split with those of the aborted transactions that have offsets in it."""
    inside = tuple(
        each for each in aborted if each.first_offset < split.end_offset and each.last_offset >= split.start_offset
    )
    return replace(split, aborted=inside)
