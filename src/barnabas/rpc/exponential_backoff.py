"""The wait before the next attempt (KIP-144, KIP-580).

Used by `rpc` and `clients`; no state but the source of chance, so no lock. Kafka: ExponentialBackoff.
"""

from __future__ import annotations

from random import Random

JITTER = 0.2
# By then every int32 maximum is reached; more attempts would only shift an ever longer integer.
_MOST_DOUBLINGS = 31


class ExponentialBackoff:
    """`initial * 2^attempts`, at most `maximum`, plus or minus 20 %, so that peers do not all retry at the same time.

    All times are milliseconds. `random` None means no jitter.
    """

    __slots__ = ("_initial", "_maximum", "_random")

    def __init__(self, initial_ms: int, maximum_ms: int, random: Random | None) -> None:
        self._initial = min(initial_ms, maximum_ms)
        self._maximum = maximum_ms
        self._random = random

    def after(self, attempts: int) -> int:
        """Return the milliseconds to wait after so many failed attempts, counted from 0."""
        # A constant backoff has no jitter, as in Kafka.
        if self._maximum <= self._initial:
            return self._initial
        term = min(self._initial << min(attempts, _MOST_DOUBLINGS), self._maximum)
        jitter = 1.0 if self._random is None else self._random.uniform(1 - JITTER, 1 + JITTER)
        return min(int(term * jitter), self._maximum)
