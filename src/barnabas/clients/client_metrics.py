"""The names and statistics of the clients' metrics, as Kafka's clients have them.

Used by the parts of a client that measure, each under its own lock or on its own thread; milliseconds come with each
call. A statistic covers two samples of 30 s, the newest incomplete. Kafka: org.apache.kafka.common.MetricName, Meter,
Max, Min.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from barnabas.metrics.rate import Average, Rate, SampleWindow

# The defaults of Kafka's metrics.num.samples and metrics.sample.window.ms.
WINDOW = SampleWindow(samples=2, sample_ms=30_000)


class MetricName(NamedTuple):
    """A metric's name with its group and tags: client-id, and topic or partition where it is about one."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


def counted(measured: dict[MetricName, float], client_id: str) -> dict[MetricName, float]:
    """Return a client's metrics with their number, itself included."""
    count = MetricName("count", "kafka-metrics-count", (("client-id", client_id),))
    return {**measured, count: len(measured) + 1}


class ClientMeter:
    """A total since the start, and its rate a second."""

    __slots__ = ("_rate", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._rate = Rate(WINDOW)

    def record(self, value: float, now_ms: int) -> None:
        """Add to the total."""
        self.total += value
        self._rate.record(value, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the units a second."""
        return self._rate.measure(now_ms)


class _Sample:
    """The extreme of one part of the window."""

    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, value: float, now_ms: int) -> None:
        self.value = value
        self.start_ms = self.last_event_ms = now_ms


class Extreme:
    """The largest or smallest value of the window. `choose`: max or min."""

    __slots__ = ("_choose", "_samples")

    def __init__(self, choose: Callable[[float, float], float]) -> None:
        self._choose = choose
        # One more than the window has: the oldest one reaches into the window from before it.
        self._samples: deque[_Sample] = deque(maxlen=WINDOW.samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Take note of a value."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= WINDOW.sample_ms:
            samples.append(_Sample(value, now_ms))
            return
        sample = samples[-1]
        sample.value = self._choose(sample.value, value)
        sample.last_event_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the extreme, or not a number without a value."""
        values = [each.value for each in self._samples if now_ms - each.last_event_ms < WINDOW.duration_ms]
        result = values[0] if values else math.nan
        for value in values:
            result = self._choose(result, value)
        return result


class Values:
    """The mean of values, their extreme, and the last one. `choose`: max or min."""

    __slots__ = ("_average", "_extreme", "last")

    def __init__(self, choose: Callable[[float, float], float] = max) -> None:
        self.last = math.nan
        self._average = Average(WINDOW)
        self._extreme = Extreme(choose)

    def record(self, value: float, now_ms: int) -> None:
        """Take note of a value."""
        self.last = value
        self._average.record(value, now_ms)
        self._extreme.record(value, now_ms)

    def average(self, now_ms: int) -> float:
        """Return the mean, or not a number without a value."""
        return self._average.measure(now_ms)

    def extreme(self, now_ms: int) -> float:
        """Return the extreme, or not a number without a value."""
        return self._extreme.measure(now_ms)
