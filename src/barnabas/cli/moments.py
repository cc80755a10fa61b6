"""Times on the command line: `2026-01-31T12:00:00`, in UTC unless the text has a time zone, as Kafka's tools take it.

Used by the commands that take or show times, on the main thread. No state.
"""

from __future__ import annotations


def parse_timestamp_ms(text: str) -> int | None:
    """Return milliseconds since the epoch (0 for earlier times), or None if the text is not an ISO 8601 time."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
        # Not local time: the same command means the same instant on every machine, and in a log read later.
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    # Negative timestamps have another meaning in ListOffsets: -1 is the latest offset, -2 the earliest.
    return max(int(seconds * 1000), 0)


def utc_time(milliseconds: int) -> str:
    """Return milliseconds since the epoch as an ISO 8601 time in UTC; behind the year 9999, the milliseconds."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{milliseconds} ms after 1970"
