"""Errors outside the program itself are one line on stderr, whatever command meets them."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(arguments: str, redirections: str = "") -> subprocess.CompletedProcess[str]:
    command = f'exec "{sys.executable}" -m barnabas {arguments} {redirections}'
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("nonsense", "No such command 'nonsense'. (see barnabas --help)"),
        ("topics create", "Missing argument 'NAME...'. (see barnabas topics create --help)"),
        ("consume one --partition x", "is not a valid integer range. (see barnabas consume --help)"),
        ("consume --group g --pattern '('", "--pattern '(' is no regular expression"),
    ],
)
def test_wrong_arguments(arguments: str, line: str) -> None:
    ended = run(arguments)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith("barnabas: ")
    assert line in ended.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    ended = run("topics")
    assert ended.returncode in (0, 2)
    assert "delete-records" in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("arguments", "redirections", "line"),
    [
        ("--help", "> /dev/full", "barnabas: input or output failed: No space left on device\n"),
        ("--help", ">&-", "barnabas: input or output failed: Bad file descriptor\n"),
        ("--help", "| head -c 1 > /dev/null", ""),
        ("--help", "2>&- <&- > /dev/null", ""),
    ],
)
def test_output_that_cannot_be_written(arguments: str, redirections: str, line: str) -> None:
    assert run(arguments, redirections).stderr == line
