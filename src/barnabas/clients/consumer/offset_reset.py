"""The setting `auto_offset_reset`: where to begin in a partition without a valid position. Pure.

Kafka: AutoOffsetResetStrategy (KIP-1106).
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.clients.calls.offset_lookup import EARLIEST, LATEST
from barnabas.clients.iso_duration import parse_duration_ms

_BY_DURATION = "by_duration:"


@dataclass(frozen=True)
class OffsetReset:
    """A policy: a `timestamp` of ListOffsets (EARLIEST, LATEST), a time span back from now, or neither of both."""

    timestamp: int | None = None
    duration_ms: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether there is no policy, so that the user gets an error."""
        return self.timestamp is None and self.duration_ms is None

    def timestamp_at(self, now_ms: int) -> int:
        """Return the timestamp to look up; `now_ms` is the wall clock's time."""
        if self.duration_ms is not None:
            return max(now_ms - self.duration_ms, 0)
        assert self.timestamp is not None
        return self.timestamp


RESET_TO_EARLIEST = OffsetReset(EARLIEST)
RESET_TO_LATEST = OffsetReset(LATEST)
NO_RESET = OffsetReset()

_NAMED = {"earliest": RESET_TO_EARLIEST, "latest": RESET_TO_LATEST, "none": NO_RESET}


def parse_offset_reset(text: str) -> OffsetReset:
    """Read `earliest`, `latest`, `none`, or `by_duration:` with an ISO 8601 span such as PT1H30M. Raises ValueError."""
    if text in _NAMED:
        return _NAMED[text]
    if text.startswith(_BY_DURATION):
        duration_ms = parse_duration_ms(text.removeprefix(_BY_DURATION))
        # As in Kafka, a policy looks back; `--by-duration` of the command line may also look ahead.
        if duration_ms is not None and duration_ms >= 0:
            return OffsetReset(duration_ms=duration_ms)
    raise ValueError(
        f"auto_offset_reset must be earliest, latest, none or by_duration:<ISO 8601 duration, PnDTnHnMnS>, not {text!r}"
    )
