"""Repairs the standard streams of a command: closed ones, and a stdout that cannot be written at the end.

Called by `main`, on the main thread. No state.
"""

from __future__ import annotations

import os
import sys

STDOUT_FD = 1


def replace_closed_streams() -> None:
    """Give each closed standard stream a descriptor, so that no socket or file of this process gets its number.

    A command that uses such a stream fails with OSError, as it would in any other program. Text for a closed stderr is
    discarded.
    """
    # `os.open` takes the lowest free number, so the order matters. Stdin is opened for writing and stdout for reading,
    # so that using them fails.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Write the rest of the buffer. Raises OSError."""
    sys.stdout.flush()


def discard_output() -> None:
    """Drop the rest of the buffer, which the interpreter would try to write at its end, with an error."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, STDOUT_FD)
    os.close(devnull)
