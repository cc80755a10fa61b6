"""Time as a constructor argument: wall time for records and files, monotonic time for waiting and measuring.

Used by every layer and any thread; holds no state, so nothing guards it. Tests use `tests/support/mock_clock.py`.
Kafka: org.apache.kafka.common.utils.Time.
"""

from __future__ import annotations

import time
from typing import Protocol

NANOSECONDS_PER_MILLISECOND = 1_000_000


class Clock(Protocol):
    """What tells the time. `milliseconds` may jump with the machine's clock; `nanoseconds` never goes back."""

    def milliseconds(self) -> int:
        """Wall time: milliseconds since the epoch, as stored in records and checkpoints."""

    def nanoseconds(self) -> int:
        """Monotonic time in nanoseconds of an arbitrary origin: for durations and deadlines."""


def _wall_milliseconds() -> int:
    return time.time_ns() // NANOSECONDS_PER_MILLISECOND


class SystemClock:
    """The machine's clock. Its methods are bound once, so that a call on a hot path costs no attribute chain."""

    __slots__ = ("milliseconds", "nanoseconds")

    def __init__(self) -> None:
        self.milliseconds = _wall_milliseconds
        self.nanoseconds = time.perf_counter_ns
