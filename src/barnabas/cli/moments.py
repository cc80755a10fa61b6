"""Moments on the command line: `2026-01-31T12:00:00`, local unless it says otherwise.

Used by the commands that look for records by time, on the main thread.
"""

from __future__ import annotations


def parse_timestamp_ms(text: str) -> int | None:
    """Return the milliseconds since 1970, which is what times before are too; None for a text that is no moment."""
    from datetime import datetime

    try:
        seconds = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(int(seconds * 1000), 0)  # negative ones mean something else to ListOffsets
