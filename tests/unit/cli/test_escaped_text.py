"""Separators on the command line."""

import click
import pytest

from barnabas.cli.option_types import resolve_escapes


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(":", ":"), ("\t", "\t"), (r"\t", "\t"), (r"\x1f|\n", "\x1f|\n"), (r"\\t", r"\t"), (r"\0", "\0"), (None, None)],
)
def test_escape_sequences_are_resolved(typed: str | None, meant: str | None) -> None:
    assert resolve_escapes(None, None, typed) == meant


@pytest.mark.parametrize(("typed", "sequence"), [(r"\q", r"\q"), (r"a\x1", r"\x"), ("a\\", "\\")])
def test_an_unknown_escape_sequence_is_named(typed: str, sequence: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        resolve_escapes(None, None, typed)
    assert caught.value.message.startswith(f"unknown escape sequence {sequence} in '{typed}'; known are ")
