"""An offset with the place where it lies. Never changed; made by the log, swapped by one assignment, read unlocked.

Kafka: org.apache.kafka.storage.internals.log.LogOffsetMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

UNKNOWN_SEGMENT: Final = -1


class LogOffsetMetadata:
    """An offset, the base offset of its segment, and its position there in bytes; the last two are -1 if not known."""

    __slots__ = ("message_offset", "position_in_segment", "segment_base_offset")

    def __init__(
        self, message_offset: i64, segment_base_offset: i64 = UNKNOWN_SEGMENT, position_in_segment: i64 = -1
    ) -> None:
        self.message_offset: i64 = message_offset
        self.segment_base_offset: i64 = segment_base_offset
        self.position_in_segment: i64 = position_in_segment

    @property
    def is_offset_only(self) -> bool:
        """Whether the place is not known."""
        return self.segment_base_offset == UNKNOWN_SEGMENT

    def on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Return whether this offset lies in an older segment than `other`; False when a place is not known."""
        return UNKNOWN_SEGMENT < self.segment_base_offset < other.segment_base_offset

    def is_same(self, other: LogOffsetMetadata) -> bool:
        """Return whether both are the same offset at the same place."""
        return (
            self.message_offset == other.message_offset
            and self.segment_base_offset == other.segment_base_offset
            and self.position_in_segment == other.position_in_segment
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogOffsetMetadata) and self.is_same(other)

    def __hash__(self) -> int:
        return hash((self.message_offset, self.segment_base_offset, self.position_in_segment))

    def __repr__(self) -> str:
        return f"LogOffsetMetadata({self.message_offset}, {self.segment_base_offset}, {self.position_in_segment})"
