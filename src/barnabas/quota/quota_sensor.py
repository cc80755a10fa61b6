"""The usage of one share of a quota: the measured rate, or the credits left, and how long clients had to wait.

Made and expired by `ClientQuotaManager`; recorded to by whichever thread answers a request. `_lock` guards the values.

Kafka: ClientSensors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.metrics.rate import Average, Rate
from barnabas.metrics.sampled_total import SampleWindow
from barnabas.quota.quota_limits import Share
from barnabas.quota.throttle_time import throttle_time_ms, token_throttle_time_ms
from barnabas.quota.token_bucket import TokenBucket

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
