"""Puts a segment the cleaner has written in the place of those it was made from.

Called by `UnifiedLog.replace_segments`, which holds the log's lock. Readers see the old segments or the new one.
Kafka: UnifiedLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.storage.file_names import CLEANED_SUFFIX
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog


def swap_in(log: UnifiedLog, base_offset: int, old: Sequence[LogSegment], environment: LogEnvironment) -> None:
    """Open the `.cleaned` segment and swap it in; snapshots of producers go with the segments. Raises OSError."""
    new = environment.segments.open(log.directory, base_offset, log.config, CLEANED_SUFFIX)
    replaced = log.local.replace_segments(new, old)
    gone = [segment.base_offset for segment in replaced if segment.base_offset != base_offset]
    log.producer_states.delete_snapshots_of(gone)
