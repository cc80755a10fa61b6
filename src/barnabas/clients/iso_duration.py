"""Spans of time as ISO 8601 writes them, as far as Java's Duration reads it: PnDTnHnMnS. Pure.

Used by the consumer's `auto_offset_reset` and by `barnabas groups reset-offsets`.
"""

from __future__ import annotations

import re
from typing import Final

# `(?=\d)` requires a unit after the T, as Java does: "PT" and "P1DT" are no durations. Java's signs are not supported,
# because no caller has a use for negative spans.
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE | re.ASCII
)
_MS_PER_UNIT: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of a time span such as P7D or PT1H30M, or None for any other text."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    *units, fraction = match.groups()
    whole_ms = sum(int(number or 0) * unit_ms for number, unit_ms in zip(units, _MS_PER_UNIT, strict=True))
    # A fraction of a second is cut to milliseconds.
    return whole_ms + int((fraction or "").ljust(3, "0")[:3])
