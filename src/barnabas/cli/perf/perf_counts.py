"""The counts and latencies of a performance run, the pace at which records are sent, and the lines of progress.

Used by the `perf` commands on the main thread. The thread that sends or reads, the producer's network thread and the
thread that shows progress share the counts; the lock of PerfCounts guards them, and the histogram of latencies.
Kafka: ProducerPerformance.Stats, ThroughputThrottler, EndToEndLatency.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

import click

from barnabas.runtime.clock import Clock

NANOSECONDS_PER_SECOND = 1_000_000_000
NANOSECONDS_PER_MICROSECOND = 1_000
MEGABYTE = 1 << 20
"""Kafka's tools count 1,048,576 bytes as a MB."""

# -- latencies

_EXACT_BITS = 11
_BUCKETS_PER_DOUBLING = 1 << (_EXACT_BITS - 1)
_LONGEST_US = (1 << 40) - 1
"""Twelve days."""


class LatencyFigures(NamedTuple):
    """The figures of a set of latencies, in milliseconds: 0 without any."""

    average_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class LatencyHistogram:
    """The number of latencies of each length, exact to 0.1 %, in constant memory. Filled by one thread at a time.

    Buckets are those of HdrHistogram. Up to 2,047 us each microsecond has a bucket of its own. Beyond, each doubling
    has 1,024 buckets: the latency 5,000 us has 13 bits, so its lowest 2 are dropped, and its bucket holds 5,000 to
    5,003 us. Kafka takes percentiles of a sample of at most 500,000 records instead.
    """

    __slots__ = ("_counts", "_sum_us", "count", "max_us")

    def __init__(self) -> None:
        self._counts = [0] * _bucket_after(_LONGEST_US)
        self._sum_us = 0
        self.count = 0
        self.max_us = 0

    def record(self, latency_us: int) -> None:
        """Count one latency. A negative one, which only a clock that went back can give, counts as 0."""
        latency_us = min(max(latency_us, 0), _LONGEST_US)
        self._counts[_bucket(latency_us)] += 1
        self._sum_us += latency_us
        self.count += 1
        self.max_us = max(self.max_us, latency_us)

    def percentile_us(self, percent: float) -> int:
        """Return the latency that `percent` of all do not exceed: the longest of its bucket, at most the longest."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_longest_us(bucket), self.max_us)
        return self.max_us

    def figures(self) -> LatencyFigures:
        """Return the figures of all latencies."""
        average_us = self._sum_us / self.count if self.count else 0.0
        p50_ms, p95_ms, p99_ms, p999_ms = (self.percentile_us(percent) / 1000 for percent in (50, 95, 99, 99.9))
        return LatencyFigures(average_us / 1000, p50_ms, p95_ms, p99_ms, p999_ms, self.max_us / 1000)


def _bucket(latency_us: int) -> int:
    dropped_bits = max(latency_us.bit_length() - _EXACT_BITS, 0)
    return _BUCKETS_PER_DOUBLING * dropped_bits + (latency_us >> dropped_bits)


def _bucket_after(latency_us: int) -> int:
    return _bucket(latency_us) + 1


def _longest_us(bucket: int) -> int:
    """Return the longest latency of a bucket."""
    dropped_bits = max(bucket // _BUCKETS_PER_DOUBLING - 1, 0)
    return ((bucket - _BUCKETS_PER_DOUBLING * dropped_bits + 1) << dropped_bits) - 1


# -- counts


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
        """Set all counts to zero, after the warm-up."""
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


# -- pace and progress


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


_ERASE_LINE = "\r\x1b[K"


class Progress:
    """The lines of one run, as a context manager. `verb` is what happens to records: sent, read.

    On a terminal one line is rewritten; otherwise a line is added every interval. A thread of its own writes them to
    stderr, so that a producer that waits for memory does not stop them.
    """

    def __init__(self, counts: PerfCounts, verb: str, interval_seconds: float, *, has_latency: bool) -> None:
        self._counts = counts
        self._verb = verb
        self._interval_seconds = interval_seconds
        self._has_latency = has_latency
        self._is_terminal = sys.stderr.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perf-progress", daemon=True)

    def line(self, figures: Figures) -> str:
        """Return the line of one interval."""
        text = (
            f"{figures.records:,} records {self._verb}, {figures.records_per_second:,.1f} records/sec"
            f" ({figures.megabytes_per_second:,.2f} MB/sec)"
        )
        if self._has_latency:
            text += f", {figures.average_latency_ms:,.1f} ms avg latency, {figures.max_latency_ms:,.1f} ms max latency"
        return text

    def _run(self) -> None:
        while not self._ended.wait(self._interval_seconds):
            line = self.line(self._counts.end_interval())
            click.echo(f"{_ERASE_LINE}{line}" if self._is_terminal else line, err=True, nl=not self._is_terminal)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_terminal:
            click.echo(_ERASE_LINE, err=True, nl=False)
