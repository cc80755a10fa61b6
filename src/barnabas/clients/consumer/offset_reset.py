"""The setting `auto_offset_reset`, and the time spans in it: where to begin without a valid position. Pure.

Read by the consumer; the time spans also by `barnabas groups reset-offsets`.
Kafka: AutoOffsetResetStrategy (KIP-1106).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from barnabas.clients.calls.offset_lookup import EARLIEST, LATEST

_BY_DURATION = "by_duration:"
# `(?=[-+\d])` requires a unit after the T, as Java does: "PT" and "P1DT" are no durations.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_MS_PER_SECOND: Final = 1_000
_MS_PER_UNIT: Final = (86_400_000, 3_600_000, 60_000)
"""Of days, hours and minutes."""


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


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of a time span such as P7D, PT1H30M or -PT5S, or None for any other text.

    A span is written as in ISO 8601, as far as Java's Duration reads it: PnDTnHnMn.nS, each number with a sign.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, days, hours, minutes, seconds_sign, seconds, fraction = match.groups()
    if (days, hours, minutes, seconds) == (None, None, None, None):
        return None
    # A fraction of a second is cut to milliseconds. It has the sign of its second.
    seconds_ms = int(seconds or 0) * _MS_PER_SECOND + int((fraction or "").ljust(3, "0")[:3])
    whole = zip((days, hours, minutes), _MS_PER_UNIT, strict=True)
    total_ms = sum(int(number or 0) * unit_ms for number, unit_ms in whole)
    total_ms += -seconds_ms if seconds_sign == "-" else seconds_ms
    return -total_ms if sign == "-" else total_ms
