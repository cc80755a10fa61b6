"""How long to wait before the next attempt (Kafka: ExponentialBackoff, KIP-144, KIP-580). Pure, but for chance."""

from __future__ import annotations

import math
from random import Random

JITTER = 0.2


class ExponentialBackoff:
    """`initial * 2^attempts`, at most `maximum`, give or take 20 %: peers that failed together don't return together.

    All times are milliseconds. `random` None means no jitter.
    """

    __slots__ = ("_initial", "_maximum", "_most_doublings", "_random")

    def __init__(self, initial_ms: int, maximum_ms: int, random: Random | None) -> None:
        self._initial = min(initial_ms, maximum_ms)
        self._maximum = maximum_ms
        self._random = random
        self._most_doublings = math.log2(maximum_ms / initial_ms) if initial_ms > 0 else 0.0

    def after(self, attempts: int) -> int:
        """Milliseconds to wait after so many failed attempts, counted from 0."""
        if self._maximum <= self._initial:
            return self._initial
        term = self._initial * 2 ** min(float(attempts), max(self._most_doublings, 0.0))
        jitter = 1.0 if self._random is None else self._random.uniform(1 - JITTER, 1 + JITTER)
        return int(min(term * jitter, self._maximum))
