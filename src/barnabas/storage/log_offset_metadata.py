"""An offset with the place where it lies. Immutable; made by the log, swapped by one assignment, read without locks.

Kafka: org.apache.kafka.storage.internals.log.LogOffsetMetadata.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_SEGMENT = -1


class LogOffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment, and its position there in bytes; the last two are -1 if not known."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_SEGMENT
    position_in_segment: int = -1

    @property
    def is_offset_only(self) -> bool:
        """Whether the place is not known."""
        return self.segment_base_offset == UNKNOWN_SEGMENT

    def on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Return whether this offset lies in an older segment than `other`; False when a place is not known."""
        return UNKNOWN_SEGMENT < self.segment_base_offset < other.segment_base_offset
