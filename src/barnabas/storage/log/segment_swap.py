"""Replacement of segments by the one that the cleaner has made of them.

Called by `UnifiedLog.replace_segments`, which holds the log's lock. Readers see the old segments or the new one.
Kafka: UnifiedLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.storage.file_names import CLEANED_SUFFIX
from barnabas.storage.log.state import LogState
from barnabas.storage.segment.log_segment import LogSegment


def swap_in(state: LogState, base_offset: int, old: Sequence[LogSegment]) -> None:
    """Open the `.cleaned` segment and swap it in; snapshots of producers go with the segments. Raises OSError."""
    local = state.local
    new = state.environment.segments.open(local.directory, base_offset, local.config, CLEANED_SUFFIX)
    replaced = local.replace_segments(new, old)
    # A snapshot belongs to the start of a segment: only the first of the replaced segments keeps its base offset.
    gone = [segment.base_offset for segment in replaced if segment.base_offset != base_offset]
    state.producers.delete_snapshots_of(gone)
    # The high watermark may lie at the end of an old segment, which no read would find any more.
    bounds = state.bounds
    if not bounds.high_watermark.is_offset_only:
        state.bounds = bounds.with_high_watermark(local.position_of(bounds.high_watermark.message_offset))
