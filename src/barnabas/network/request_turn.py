"""The decision which requests of one turn of a Processor's loop run at once on its thread. Pure: the time is passed in.

Owned by one RequestIntake, on its Processor's thread; no lock. Kafka: none, as every request there goes through the
RequestChannel. Why, and the measurements behind the two constants: docs/decisions/0013-what-runs-at-once.md.

A turn begins `at_once`: brief requests run on the network thread. Its time is `TURN_NS`. A later request either waits
for the next turn or, behind a request that was slow by itself, goes to the handler threads:

    time  0 ms    turn.begin
          0.6     A and B have run, 0.3 ms each
          1.1     C has run; D arrives behind it. 1.1 > 1 ms, and C took 0.5 ms: the turn was used up by many brief
                  requests. `is_used_up` returns True: D waits, new answers and ready sockets come first.
    or    9       C took 8.4 ms: so long it was not working but waiting. `at_once` ends: D and all that follow
                  in this turn are queued for handler threads, so that none of them waits behind another one like C.
"""

from __future__ import annotations

from typing import Final

TURN_NS: Final = 1_000_000
"""The time that one turn of the loop may spend on requests that run at once."""
SLOW_REQUEST_NS: Final = 5_000_000
"""A single request that takes this long is waiting for something, and others must not wait behind it. A thread that the
kernel preempts for a time slice loses up to 4 ms, so a shorter time proves nothing."""


class RequestTurn:
    """The state of one turn: its end, and whether requests still run at once."""

    __slots__ = ("_may_run_at_once", "at_once", "ends_ns")

    def __init__(self, *, may_run_at_once: bool) -> None:
        """may_run_at_once: `inline.requests.enable`, and the plane allows it. Otherwise every request is queued."""
        self._may_run_at_once = may_run_at_once
        self.at_once = may_run_at_once
        """Whether a brief request runs on the network thread."""
        self.ends_ns = 0
        """The end of the turn's time. Before it `is_used_up` need not be called, so a request costs one comparison."""

    def begin(self, now_ns: int) -> None:
        """Begin a turn."""
        self.ends_ns = now_ns + TURN_NS
        self.at_once = self._may_run_at_once

    def is_used_up(self, now_ns: int, last_began_ns: int) -> bool:
        """Return whether a frame that is taken now, after `ends_ns`, has to wait for the next turn.

        last_began_ns: the time at which the previous request began. If that request alone was slow, the turn goes on,
        and the rest of its requests are queued.
        """
        if self.at_once or not self._may_run_at_once:
            # A request of an earlier turn says nothing about this one.
            turn_began_ns = self.ends_ns - TURN_NS
            if now_ns - max(last_began_ns, turn_began_ns) < SLOW_REQUEST_NS:
                return True
            self.at_once = False
        return False
