"""How long a client has to wait until what it used is within its quota again. Pure functions.

Called by the quota managers. Kafka: org.apache.kafka.server.quota.QuotaUtils and
ControllerMutationQuotaManager.throttleTimeMs. What Kafka leaves open: a quota of nothing at all makes its client wait
for the whole window (there Infinity becomes -1 ms, which is no wait).
"""

from __future__ import annotations

import math
from typing import Final

LONGEST_MS: Final = (1 << 31) - 1
"""What the field of an answer can say."""


def throttle_time_ms(rate: float, bound: float, window_ms: int) -> int:
    """The wait X after which the rate, taken over a window longer by X, is the bound: rate * W / (W + X) = bound."""
    if bound <= 0:
        return min(window_ms, LONGEST_MS)
    return _rounded((rate - bound) / bound * window_ms)


def token_throttle_time_ms(tokens: float, bound: float, window_ms: int) -> int:
    """The wait until `tokens`, which are less than none, have come back at `bound` a second."""
    if bound <= 0:
        return min(window_ms, LONGEST_MS)
    return _rounded(-tokens / bound * 1000)


def _rounded(milliseconds: float) -> int:
    """Java's Math.round, within what an answer can say."""
    return LONGEST_MS if milliseconds >= LONGEST_MS else math.floor(milliseconds + 0.5)
