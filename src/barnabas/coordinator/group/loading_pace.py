"""How fast loading may go: in slices, with pauses while this process has other work.

Asked by `GroupLoader` after each slice, on the scheduler thread that ran it; owned by it. Pure: it is told how much CPU
time the process and the loading thread have used.

Beside other work loading gets a fifth of a core: a pause of four times what a slice used. While there is none it goes
on without pauses: a process at start, with a million offsets to load, is better off with them. Other work is noticed by
the CPU time that the process uses beside the loading, over a few slices, so that a housekeeping thread that wakes up is
no reason to pause; the pauses end when it has been quiet for a while.
"""

from __future__ import annotations

from typing import Final

SLICE_NS: Final = 1_000_000
"""CPU time of a slice: about what a request may cost others."""
PAUSE_FACTOR: Final = 4
BUSY_SHARE: Final = 0.04
"""Of a core that others use: above it there is other work."""
QUIET_NS: Final = 50_000_000
"""So long others must have been quiet before the pauses end."""
_WINDOW_NS: Final = 10_000_000


class LoadingPace:
    """Sums up wall time and others' CPU time by windows of some ten milliseconds."""

    def __init__(self) -> None:
        self._wall_ns = 0
        self._others_ns = 0
        self._quiet_ns = QUIET_NS
        self._is_busy = False

    @property
    def is_busy(self) -> bool:
        """Whether the process has other work."""
        return self._is_busy

    def pause_ns(self, used_ns: int, wall_ns: int, others_ns: int) -> int:
        """How long to pause after a slice that used `used_ns` of CPU time.

        wall_ns: since the slice before ended, its pause included; others_ns: CPU time that the rest of the process used
        in it.
        """
        self._wall_ns += wall_ns
        self._others_ns += others_ns
        if self._wall_ns >= _WINDOW_NS:
            if self._others_ns > BUSY_SHARE * self._wall_ns:
                self._quiet_ns = 0
            else:
                self._quiet_ns += self._wall_ns
            self._is_busy = self._quiet_ns < QUIET_NS
            self._wall_ns = self._others_ns = 0
        return PAUSE_FACTOR * used_ns if self._is_busy else 0
