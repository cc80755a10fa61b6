"""Times on the command line: `2026-01-31T12:00:00`, in local time unless the text has a time zone.

Used by the commands that take or show times, on the main thread. No state.
"""

from __future__ import annotations


def parse_timestamp_ms(text: str) -> int | None:
    """Return milliseconds since the epoch (0 for earlier times), or None if the text is not an ISO 8601 time."""
    from datetime import datetime

    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
    # Negative timestamps have another meaning in ListOffsets: -1 is the latest offset, -2 the earliest.
    return max(int(seconds * 1000), 0)


def utc_time(milliseconds: int) -> str:
    """Return milliseconds since the epoch as an ISO 8601 time in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
