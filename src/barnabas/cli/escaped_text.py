r"""The callback of options that take a separator: `\t` in their text is a tab, `\n` a line feed, `\x1f` one character.

A shell passes `'\t'` on as two characters, and a real tab is hard to type. Called by click, on the main thread. Pure.
"""

from __future__ import annotations

import re
from typing import Final

import click

# The last alternative matches a backslash before any other character, or at the end: an escape that is not known.
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def resolve_escapes(_context: click.Context | None, _option: click.Parameter | None, text: str | None) -> str | None:
    """Return the text with its escape sequences resolved. Raises click.BadParameter for an unknown one."""
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
