"""The wait for something that happens a moment later: settings that are taken over, brokers that hear of a topic.

Called by tests on their own thread. Each file says how long it is patient: `eventually = partial(wait_until,
seconds=SECONDS)`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], Any], seconds: float, is_right: Callable[[Any], Any] = bool) -> Any:
    """Wait until the value of a condition is right, and return it. Raises AssertionError: it is not in time."""
    deadline = time.monotonic() + seconds
    while not is_right(value := condition()):
        assert time.monotonic() < deadline, f"it stayed {value!r}"
        time.sleep(POLL_SECONDS)
    return value


def is_gone(path: Path) -> bool:
    """Return whether a file or directory is deleted."""
    return not path.exists()
