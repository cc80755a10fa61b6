"""Time as a constructor argument: wall time for records and files, monotonic time for waiting and measuring.

Used by every layer and any thread; no state, so no lock. Tests use `tests/support/mock_clock.py`.
Kafka: Time (org.apache.kafka.common.utils).
"""

from __future__ import annotations

import time
from typing import Final, Protocol

NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
NEVER_MS: Final = -(1 << 62)
"""A time before all others: the monotonic clock may be near zero."""


class Clock(Protocol):
    """The source of the time. `milliseconds` may jump with the machine's clock; `nanoseconds` never goes back."""

    def milliseconds(self) -> int:
        """Return the wall time: milliseconds since the epoch, as stored in records and checkpoints."""

    def nanoseconds(self) -> int:
        """Return the monotonic time in nanoseconds since an arbitrary origin: for durations and deadlines."""


def _wall_milliseconds() -> int:
    return time.time_ns() // NANOSECONDS_PER_MILLISECOND


class SystemClock:
    """The machine's clock. Its methods are bound once, so that a call on a hot path costs no attribute chain."""

    __slots__ = ("milliseconds", "nanoseconds")

    def __init__(self) -> None:
        self.milliseconds = _wall_milliseconds
        # Not `time.time_ns`: an adjustment of the machine's clock must not expire timers or stretch waits.
        self.nanoseconds = time.perf_counter_ns
