"""Spans of time as ISO 8601 writes them, as far as Java's Duration reads it: PnDTnHnMn.nS, each with a sign. Pure.

Used by the consumer's `auto_offset_reset` and by `barnabas groups reset-offsets`.
"""

from __future__ import annotations

import re
from typing import Final

# `(?=[-+\d])` requires a unit after the T, as Java does: "PT" and "P1DT" are no durations.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_MS_PER_SECOND: Final = 1_000
_MS_PER_UNIT: Final = (86_400_000, 3_600_000, 60_000)
"""Of days, hours and minutes."""


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of a time span such as P7D, PT1H30M or -PT5S, or None for any other text."""
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
