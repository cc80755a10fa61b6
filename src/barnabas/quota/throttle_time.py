"""How long a client has to wait until its usage is within its quota again. Pure functions.

Called by the quota managers. Beside Kafka's: a quota of 0 makes its client wait for the whole window (in Kafka Infinity
becomes -1 ms, which is no wait).

Kafka: org.apache.kafka.server.quota.QuotaUtils, ControllerMutationQuotaManager.throttleTimeMs.
"""

from __future__ import annotations

import math
from typing import Final

LONGEST_MS: Final = (1 << 31) - 1
"""The largest value of the field in answers."""


def throttle_time_ms(rate: float, bound: float, window_ms: int) -> int:
    """Return the wait X after which the rate, over a window longer by X, is the bound: rate * W / (W + X) = bound."""
    if bound <= 0:
        return min(window_ms, LONGEST_MS)
    return _rounded((rate - bound) / bound * window_ms)


def token_throttle_time_ms(tokens: float, bound: float, window_ms: int) -> int:
    """Return the wait until `tokens`, which are below zero, have come back at `bound` a second."""
    if bound <= 0:
        return min(window_ms, LONGEST_MS)
    return _rounded(-tokens / bound * 1000)


def _rounded(milliseconds: float) -> int:
    """Round as Java's Math.round, within the field of answers."""
    # The comparison comes first, because `floor` raises for an infinite wait. Python's `round` rounds halves to even.
    return LONGEST_MS if milliseconds >= LONGEST_MS else math.floor(milliseconds + 0.5)
