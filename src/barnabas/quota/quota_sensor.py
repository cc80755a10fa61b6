"""The usage of one share of a quota: the measured rate, or the credits left, and how long clients have to wait.

Made and expired by `ClientQuotaManager`; recorded to by whichever thread answers a request. `_lock` guards the values;
milliseconds come with each call. Beside Kafka's: a quota of 0 makes its client wait for the whole window (in Kafka
Infinity becomes -1 ms, which is no wait).
Kafka: ClientSensors, QuotaUtils, ControllerMutationQuotaManager.throttleTimeMs, TokenBucket.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.metrics.rate import Average, Rate, SampleWindow
from barnabas.quota.quota_limits import Share

LONGEST_THROTTLE_TIME_MS: Final = (1 << 31) - 1
"""The largest value of the field in answers."""


def throttle_time_ms(rate: float, bound: float, window_ms: int) -> int:
    """Return the wait X after which the rate, over a window longer by X, is the bound: rate * W / (W + X) = bound."""
    if bound <= 0:
        return min(window_ms, LONGEST_THROTTLE_TIME_MS)
    return _rounded((rate - bound) / bound * window_ms)


def token_throttle_time_ms(tokens: float, bound: float, window_ms: int) -> int:
    """Return the wait until `tokens`, which are below zero, have come back at `bound` a second."""
    if bound <= 0:
        return min(window_ms, LONGEST_THROTTLE_TIME_MS)
    return _rounded(-tokens / bound * 1000)


def _rounded(milliseconds: float) -> int:
    """Round as Java's Math.round, within the field of answers."""
    # The comparison comes first, because `floor` raises for an infinite wait. Python's `round` rounds halves to even.
    return LONGEST_THROTTLE_TIME_MS if milliseconds >= LONGEST_THROTTLE_TIME_MS else math.floor(milliseconds + 0.5)


class TokenBucket:
    """Credits that come back at a steady rate, `bound` a second, up to those of a whole window. Full at first.

    Owned by a sensor, under its lock. The bound may change between calls. Unlike with a sampled rate, a burst costs the
    wait until its credits have come back, not until its sample leaves the window. With 10 credits a second and a window
    of 11 s, a burst of 130 leaves -20: the client waits 2 s.
    """

    __slots__ = ("_tokens", "_updated_ms", "_window_seconds")

    def __init__(self, window: SampleWindow, bound: float, now_ms: int) -> None:
        self._window_seconds = window.duration_ms / 1000
        self._tokens = bound * self._window_seconds
        self._updated_ms = now_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take `value` credits; the rest may be below zero."""
        self._refill(bound, now_ms)
        # A negative value returns credits: not more than the bucket holds.
        self._tokens = min(bound * self._window_seconds, self._tokens - value)

    def measure(self, bound: float, now_ms: int) -> float:
        """Return the credits now; below zero the quota is exceeded."""
        self._refill(bound, now_ms)
        return self._tokens

    def _refill(self, bound: float, now_ms: int) -> None:
        elapsed_seconds = (now_ms - self._updated_ms) / 1000
        self._tokens = min(bound * self._window_seconds, self._tokens + bound * elapsed_seconds)
        self._updated_ms = now_ms


Values = Iterable[tuple[str, float]]


class QuotaSensor(Protocol):
    """The measured values of one share. `share` is replaced when its bound changes."""

    share: Share
    last_recorded_ms: int

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`, whatever the quota says."""

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait until it is within its quota; 0 if it is."""

    def record_throttle_time(self, throttle_time_ms: int, now_ms: int) -> None:
        """Count a time that the client had to wait."""

    def values(self, now_ms: int) -> Values:
        """Return the metrics, by Kafka's names."""


class RateSensor:
    """A sampled rate: bytes a second, or percent of a thread.

    window: of the quota; statistics: the window of the mean throttle time; rate_name: of the metric.
    """

    __slots__ = ("_lock", "_rate", "_rate_name", "_throttle_times", "_window", "last_recorded_ms", "share")

    def __init__(
        self, share: Share, window: SampleWindow, statistics: SampleWindow, rate_name: str, now_ms: int
    ) -> None:
        self.share = share
        self.last_recorded_ms = now_ms
        self._lock = threading.Lock()
        self._window = window
        self._rate = Rate(window)
        self._rate_name = rate_name
        self._throttle_times = Average(statistics)

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`, whatever the quota says."""
        with self._lock:
            self.last_recorded_ms = now_ms
            self._rate.record(value, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait until its rate is within its quota; 0 if it is."""
        bound = self.share.bound
        with self._lock:
            rate = self._rate.measure(now_ms)
            if rate <= bound:
                return 0
            # A bound of 0 has no wait after which the rate would be within it: the client waits for the whole window.
            window_ms = self._rate.window_ms(now_ms) if bound > 0 else self._window.duration_ms
        return throttle_time_ms(rate, bound, window_ms)

    def record_throttle_time(self, throttle_time_ms: int, now_ms: int) -> None:
        """Count a time that the client had to wait."""
        with self._lock:
            self._throttle_times.record(throttle_time_ms, now_ms)

    def values(self, now_ms: int) -> Values:
        """Return the metrics, by Kafka's names."""
        with self._lock:
            return (
                (self._rate_name, self._rate.measure(now_ms)),
                ("throttle-time", self._throttle_times.measure(now_ms)),
            )


TOKENS: Final = "tokens"


class TokenSensor:
    """Credits: partitions that may be created or deleted."""

    __slots__ = ("_bucket", "_lock", "_rate", "_throttle_times", "_window", "last_recorded_ms", "share")

    def __init__(self, share: Share, window: SampleWindow, statistics: SampleWindow, now_ms: int) -> None:
        self.share = share
        self.last_recorded_ms = now_ms
        self._lock = threading.Lock()
        self._window = window
        self._bucket = TokenBucket(window, share.bound, now_ms)
        self._rate = Rate(statistics)
        self._throttle_times = Average(statistics)

    def record(self, value: float, now_ms: int) -> None:
        """Take `value` credits, whatever is left."""
        with self._lock:
            self._record(value, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait until there are credits again; 0 if there are."""
        with self._lock:
            return self._wait_ms(now_ms)

    def record_unless_exceeded(self, value: float, now_ms: int) -> int:
        """Count `value`, unless the quota is exceeded already; return the time to wait, 0 if the value was counted."""
        with self._lock:
            wait_ms = self._wait_ms(now_ms)
            if not wait_ms:
                self._record(value, now_ms)
            return wait_ms

    def record_throttle_time(self, throttle_time_ms: int, now_ms: int) -> None:
        """Count a time that the client had to wait."""
        with self._lock:
            self._throttle_times.record(throttle_time_ms, now_ms)

    def values(self, now_ms: int) -> Values:
        """Return the metrics, by Kafka's names."""
        with self._lock:
            return (
                ("mutation-rate", self._rate.measure(now_ms)),
                (TOKENS, self._bucket.measure(self.share.bound, now_ms)),
                ("throttle-time", self._throttle_times.measure(now_ms)),
            )

    def _record(self, value: float, now_ms: int) -> None:
        self.last_recorded_ms = now_ms
        self._rate.record(value, now_ms)
        self._bucket.record(value, self.share.bound, now_ms)

    def _wait_ms(self, now_ms: int) -> int:
        bound = self.share.bound
        tokens = self._bucket.measure(bound, now_ms)
        if tokens >= 0:
            return 0
        # At least 1: a part of a credit that is missing would be rounded to no wait, and the request be let pass.
        return max(1, token_throttle_time_ms(tokens, bound, self._window.duration_ms))
