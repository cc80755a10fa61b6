"""The pace of loading: slices, with pauses between them while this process has other work.

Asked by `CoordinatorLoader` after each slice, on its thread; owned by it. Pure: the caller reads the clocks.

Beside other work loading gets less than a fifth of a core, because its slices delay other threads a little, too: the
next slice begins when five and a half times the CPU time of the last one has passed. A pause that took longer than
planned is made good, up to a few slices. Without other work loading goes on without pauses: a process that starts with
a million offsets to load is better off with them. Other work shows in the CPU time that the process uses beside the
loading, over a window of a few slices, so that a housekeeping thread that wakes up is no reason to pause. The pauses
end when the process has been quiet for a while.

An example with other work: a slice begins at 100.0 ms and uses 1.2 ms, so the next one may begin at 106.6 ms. The
thread wakes up at 109.0 ms only, and uses 1.0 ms. The slice after that begins at 106.6 + 5.5 = 112.1 ms, not at 114.5.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SLICE_NS: Final = 1_000_000
"""CPU time of a slice: about as much as a request may take."""
PAUSE_FACTOR: Final = 5.5
"""The time from one slice to the next, in multiples of the CPU time that the slice used."""
BUSY_SHARE: Final = 0.05
"""The share of a core above which the CPU time of other threads counts as other work."""
WINDOW_NS: Final = 20_000_000
"""The time over which other work is measured."""
QUIET_NS: Final = 60_000_000
"""The time without other work after which the pauses end."""
CREDIT_NS: Final = 20_000_000
"""The most that is made good of pauses that took too long."""


class CpuReadings(NamedTuple):
    """The time, the CPU time of the loading thread, and that of the process."""

    now_ns: int
    own_ns: int
    process_ns: int


class LoadingPace:
    """The pauses of one loading. begin: the readings when loading begins."""

    def __init__(self, begin: CpuReadings) -> None:
        self._window = begin
        self._quiet_since_ns: int | None = begin.now_ns - QUIET_NS
        self._is_busy = False
        self._paid_until_ns = begin.now_ns
        self._own_ns = begin.own_ns

    @property
    def is_busy(self) -> bool:
        """Whether the process has other work."""
        return self._is_busy

    def pause_ns(self, readings: CpuReadings) -> int:
        """Return how long to pause after a slice."""
        self._measure_load(readings)
        now_ns, own_ns, _ = readings
        used_ns = own_ns - self._own_ns
        self._own_ns = own_ns
        if not self._is_busy:
            self._paid_until_ns = now_ns
            return 0
        # Each slice is paid for by time, counted from when the last one was paid for: time before that is no credit.
        self._paid_until_ns = max(self._paid_until_ns, now_ns - used_ns - CREDIT_NS) + int(PAUSE_FACTOR * used_ns)
        return max(self._paid_until_ns - now_ns, 0)

    def _measure_load(self, readings: CpuReadings) -> None:
        """Compare the process's CPU time with the loading thread's, once in a window."""
        now_ns, own_ns, process_ns = readings
        began_ns, own_before_ns, process_before_ns = self._window
        wall_ns = now_ns - began_ns
        if wall_ns < WINDOW_NS:
            return
        self._window = readings
        others_ns = (process_ns - process_before_ns) - (own_ns - own_before_ns)
        if others_ns > BUSY_SHARE * wall_ns:
            self._quiet_since_ns = None
            self._is_busy = True
            return
        if self._quiet_since_ns is None:
            self._quiet_since_ns = began_ns
        self._is_busy = now_ns - self._quiet_since_ns < QUIET_NS
