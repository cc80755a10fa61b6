"""The records of a performance run that have been counted, and the pace at which they are sent.

Shared by the thread that sends or reads, the producer's network thread and the thread that shows progress; one lock
guards the counts. Kafka: ProducerPerformance.Stats, ThroughputThrottler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from barnabas.cli.perf_latencies import LatencyFigures, LatencyHistogram
from barnabas.runtime.clock import Clock

NANOSECONDS_PER_SECOND = 1_000_000_000
NANOSECONDS_PER_MICROSECOND = 1_000
MEGABYTE = 1 << 20
"""Kafka's tools count 1,048,576 bytes as a MB."""


class Figures(NamedTuple):
    """The records of a stretch of time, and their latency: 0 where none was measured."""

    records: int
    megabytes: float
    seconds: float
    average_latency_ms: float
    max_latency_ms: float

    @property
    def records_per_second(self) -> float:
        """The rate, or 0 for no time."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        """The rate, or 0 for no time."""
        return self.megabytes / self.seconds if self.seconds else 0.0


class _Stretch:
    """The counts since a moment."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.end_ns = start_ns
        self.records = 0
        self.size_bytes = 0
        self.latency_sum_us = 0
        self.longest_us = 0

    def figures(self, end_ns: int) -> Figures:
        return Figures(
            self.records,
            self.size_bytes / MEGABYTE,
            (end_ns - self.start_ns) / NANOSECONDS_PER_SECOND,
            self.latency_sum_us / self.records / 1000 if self.records else 0.0,
            self.longest_us / 1000,
        )


class PerfCounts:
    """The counts of one run, and of the interval since the last progress line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        now_ns = clock.nanoseconds()
        self._all = _Stretch(now_ns)
        self._interval = _Stretch(now_ns)
        self._latencies = LatencyHistogram()
        self.errors: list[BaseException] = []
        """The errors of records that failed, which are counted nowhere else."""

    def restart(self) -> None:
        """Begin anew, after the warm-up."""
        with self._lock:
            now_ns = self._clock.nanoseconds()
            self._all, self._interval, self._latencies = _Stretch(now_ns), _Stretch(now_ns), LatencyHistogram()

    def add(self, records: int, size_bytes: int, since_ns: int | None = None) -> None:
        """Count records that have arrived now, with the latency since then."""
        now_ns = self._clock.nanoseconds()
        latency_us = 0 if since_ns is None else (now_ns - since_ns) // NANOSECONDS_PER_MICROSECOND
        with self._lock:
            if since_ns is not None:
                self._latencies.record(latency_us)
            for stretch in (self._all, self._interval):
                stretch.records += records
                stretch.size_bytes += size_bytes
                stretch.end_ns = now_ns
                stretch.latency_sum_us += latency_us
                stretch.longest_us = max(stretch.longest_us, latency_us)

    def fail(self, error: BaseException) -> None:
        """Note a record that failed."""
        with self._lock:
            self.errors.append(error)

    def total(self) -> Figures:
        """Return the figures from the start to the last record."""
        with self._lock:
            return self._all.figures(self._all.end_ns)

    def latency(self) -> LatencyFigures:
        """Return the latencies from the start to the last record."""
        with self._lock:
            return self._latencies.figures()

    def end_interval(self) -> Figures:
        """Return the figures since the last call."""
        with self._lock:
            now_ns = self._clock.nanoseconds()
            ended, self._interval = self._interval, _Stretch(now_ns)
        return ended.figures(now_ns)


class Pace:
    """The times at which records should be sent. `per_second` None: each at once.

    A record that is sent late, because an earlier one was held up, counts its latency from the time at which it should
    have been sent. Otherwise a broker that stalls for a second would show one slow record, and none of those that users
    would have waited for meanwhile (coordinated omission).
    """

    def __init__(self, clock: Clock, sleep: Callable[[float], None], per_second: float | None) -> None:
        self._clock = clock
        self._sleep = sleep
        self._per_second = per_second
        self._start_ns = clock.nanoseconds()

    def due_ns(self, number: int) -> int:
        """Return the time for record `number`, counted from 0: now, if the pace is not limited."""
        if self._per_second is None:
            return self._clock.nanoseconds()
        return self._start_ns + int(number * NANOSECONDS_PER_SECOND / self._per_second)

    def await_turn(self, number: int) -> int:
        """Wait until record `number` is due. Returns the time from which its latency counts."""
        due_ns = self.due_ns(number)
        while (left_ns := due_ns - self._clock.nanoseconds()) > 0:
            self._sleep(left_ns / NANOSECONDS_PER_SECOND)
        return due_ns
