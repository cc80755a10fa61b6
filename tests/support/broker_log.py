"""The wait for lines of a broker's log. Used by tests, on their thread; no lock.

A thread of its own writes the broker's lines (`runtime.log_queue`): an answer, or the end of a connection, may reach a
test before the line that the broker logged earlier. Only the log of a broker that has stopped is whole.
"""

from __future__ import annotations

import time
from typing import Protocol

_PATIENCE_SECONDS = 60


class _HasLog(Protocol):
    def log_text(self) -> str: ...


def wait_for_log_line(server: _HasLog, text: str, count: int = 1) -> None:
    """Wait until the log has this text so many times. Fails after a minute."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while server.log_text().count(text) < count:
        assert time.monotonic() < deadline, f"no line with {text!r}"
        time.sleep(0.02)
