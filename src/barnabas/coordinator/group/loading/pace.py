"""How fast loading may go: in slices, with pauses while this process has other work.

Asked by `GroupLoader` after each slice, on its thread; owned by it. Pure: it is told the time, and how much CPU time
its own thread and the process have used so far.

Beside other work loading gets less than a fifth of a core, for its slices cost other threads a little, too: it pauses
until five and a half times what it used has passed. A pause that took longer than it should is made good, as far as a
few slices. While there is no other work it goes on without pauses: a process that starts with a million offsets to load
is better off with them. Other work is noticed by the CPU time that the process uses beside the loading, over a few
slices, so that a housekeeping thread that wakes up is no reason to pause; the pauses end when it has been quiet for a
while.
"""

from __future__ import annotations

from typing import Final

SLICE_NS: Final = 1_000_000
"""CPU time of a slice: about what a request may cost others."""
PAUSE_FACTOR: Final = 5.5
"""Loading gets one part of so many."""
BUSY_SHARE: Final = 0.05
"""Of a core that others use: above it there is other work."""
WINDOW_NS: Final = 20_000_000
"""So long is looked at before it is decided whether there is."""
QUIET_NS: Final = 60_000_000
"""So long others must have been quiet before the pauses end."""
CREDIT_NS: Final = 20_000_000
"""Of pauses that took too long, so much is made good at most."""


class LoadingPace:
    """begin: time, CPU time of the own thread and of the process, in nanoseconds, when loading begins."""

    def __init__(self, begin: tuple[int, int, int]) -> None:
        self._window = begin
        self._quiet_since_ns: int | None = begin[0] - QUIET_NS
        self._is_busy = False
        self._paid_until_ns = begin[0]
        self._own_ns = begin[1]

    @property
    def is_busy(self) -> bool:
        """Whether the process has other work."""
        return self._is_busy

    def pause_ns(self, now_ns: int, own_ns: int, process_ns: int) -> int:
        """How long to pause, after a slice."""
        self._look_around(now_ns, own_ns, process_ns)
        used_ns = own_ns - self._own_ns
        self._own_ns = own_ns
        if not self._is_busy:
            self._paid_until_ns = now_ns
            return 0
        # What was used is paid for by time, from when the last slice was paid for; time before that is no credit.
        self._paid_until_ns = max(self._paid_until_ns, now_ns - used_ns - CREDIT_NS) + int(PAUSE_FACTOR * used_ns)
        return max(self._paid_until_ns - now_ns, 0)

    def _look_around(self, now_ns: int, own_ns: int, process_ns: int) -> None:
        began_ns, own_before_ns, process_before_ns = self._window
        wall_ns = now_ns - began_ns
        if wall_ns < WINDOW_NS:
            return
        self._window = (now_ns, own_ns, process_ns)
        others_ns = (process_ns - process_before_ns) - (own_ns - own_before_ns)
        if others_ns > BUSY_SHARE * wall_ns:
            self._quiet_since_ns = None
            self._is_busy = True
            return
        if self._quiet_since_ns is None:
            self._quiet_since_ns = began_ns
        self._is_busy = now_ns - self._quiet_since_ns < QUIET_NS
