"""Types of the commands' options: numbers within the protocol's bits, separators with escape sequences, and times.

Used by the commands' options, and by click on the main thread. No state.
"""

from __future__ import annotations

import re
from typing import Final

import click

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1

# click rejects other numbers by the option's name.
NUMBER: Final = click.IntRange(0, _INT32_MAX)
"""The number of a partition or a broker."""
COUNT: Final = click.IntRange(1, _INT32_MAX)
"""A count of at least one."""
LIMIT: Final = click.IntRange(-1, _INT32_MAX)
"""The number of records to stop after. As in Kafka's console consumer, -1 removes the limit."""
REPLICATION_FACTOR: Final = click.IntRange(1, 2**15 - 1)
"""A number of replicas, which has 16 bits in the protocol."""
OFFSET: Final = click.IntRange(0, _INT64_MAX)
SHIFT: Final = click.IntRange(-_INT64_MAX, _INT64_MAX)
"""A difference of offsets."""
RATE: Final = SHIFT
"""Bytes a second. As in Kafka, a negative rate removes the limit."""


# The last alternative matches a backslash before any other character, or at the end: an escape that is not known.
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def resolve_escapes(_context: click.Context | None, _option: click.Parameter | None, text: str | None) -> str | None:
    r"""Return the text with its escape sequences resolved: the callback of options that take a separator.

    `\t` in the text is a tab, `\n` a line feed, `\x1f` one character. A shell passes `'\t'` on as two characters, and
    a real tab is hard to type. Raises click.BadParameter for an unknown sequence.
    """
    return None if text is None else _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape sequence. Raises click.BadParameter for an unknown one."""
    if match[1] is not None:
        return chr(int(match[1], 16))
    if (character := _CHARACTERS.get(match[2])) is None:
        # To take the backslash for one that is meant would hide a typing error.
        known = r"\t, \n, \r, \0, \xHH and \\ (a backslash)"
        raise click.BadParameter(f"unknown escape sequence {match[0]} in '{match.string}'; known are {known}")
    return character


def parse_timestamp_ms(text: str) -> int | None:
    """Return milliseconds since the epoch (0 for earlier times), or None if the text is not an ISO 8601 time.

    A time is `2026-01-31T12:00:00`, in UTC unless the text has a time zone, as Kafka's tools take it.
    """
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
