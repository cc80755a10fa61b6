"""The waits of a classic group for its members' joins, by number.

Held by `ClassicGroup`, guarded by the group's lock. Pure. Kafka: DelayedJoin and InitialDelayedJoin.
"""

from __future__ import annotations


class JoinRounds:
    """The present wait, and how much longer the first members of an empty group wait for others.

    A group with a first member waits for `group.initial.rebalance.delay.ms`, so that one rebalance serves all members
    that start together. If another member joins during that step, a further step of the same length follows. All steps
    together last no longer than the members' rebalance timeout. Times in milliseconds.

    number: tells a wait from earlier ones. is_first: the members are the first ones of an empty group.
    """

    __slots__ = ("_delay_ms", "_has_new_member", "_remaining_ms", "_step_ms", "is_first", "number")

    def __init__(self) -> None:
        self.number = 0
        self.is_first = False
        self._has_new_member = False
        self._step_ms = self._delay_ms = self._remaining_ms = 0

    def begin(self) -> None:
        """Begin a wait: the next number."""
        self.number += 1

    def begin_first(self, step_ms: int, rebalance_timeout_ms: int) -> None:
        """Begin the wait of the first members: the next number, and a first step of this length."""
        self.number += 1
        self.is_first = True
        self._has_new_member = False
        self._step_ms = self._delay_ms = step_ms
        self._remaining_ms = max(rebalance_timeout_ms - step_ms, 0)

    def note_new_member(self) -> None:
        """Extend the wait of the first members by a step."""
        self._has_new_member = True

    def next_step_ms(self) -> int | None:
        """Return the length of the first members' next step, or None if there is none: the joins end now."""
        if not self.is_first or not self._has_new_member or not self._remaining_ms:
            return None
        self._has_new_member = False
        # As in Kafka's InitialDelayedJoin, the step that is over is subtracted here, and not the one that begins.
        delay_ms = min(self._step_ms, self._remaining_ms)
        self._remaining_ms = max(self._remaining_ms - self._delay_ms, 0)
        self._delay_ms = delay_ms
        return delay_ms

    def end(self) -> None:
        """Mark the wait of the first members as over."""
        self.is_first = False
