"""How long the first members of an empty group wait for others, so that one rebalance serves them all.

Held by `ClassicGroup` while it waits, guarded by the group's lock. Pure. Kafka: InitialDelayedJoin.
"""

from __future__ import annotations


class FirstJoins:
    """A wait in steps, each as long as `group.initial.rebalance.delay.ms`: another one follows if somebody has joined
    meanwhile, but in all the members wait no longer than their rebalance timeout. Times in milliseconds.

    has_more: somebody has joined in this step.
    """

    __slots__ = ("_delay_ms", "_remaining_ms", "_step_ms", "has_more")

    def __init__(self, step_ms: int, rebalance_timeout_ms: int) -> None:
        self._step_ms = step_ms
        self._delay_ms = step_ms
        self._remaining_ms = max(rebalance_timeout_ms - step_ms, 0)
        self.has_more = False

    def further_ms(self) -> int | None:
        """A step is over: how long the next one is; None: there is none."""
        if not self.has_more or not self._remaining_ms:
            return None
        self.has_more = False
        delay_ms = min(self._step_ms, self._remaining_ms)
        self._remaining_ms = max(self._remaining_ms - self._delay_ms, 0)
        self._delay_ms = delay_ms
        return delay_ms
