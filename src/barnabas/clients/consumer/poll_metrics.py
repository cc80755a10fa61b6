"""How a consumer's user polls, and how long its calls about offsets take: the metrics that Kafka has of these calls.

Owned by the consumer's thread; no lock. Each poll costs two records of a RolledMeter. Kafka: KafkaConsumerMetrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from barnabas.metrics.meter import ROLL_MS, RolledMeter
from barnabas.runtime.clock import Clock


class OffsetCall(Enum):
    """The calls about offsets whose time is measured, by the name of the metric."""

    COMMIT_SYNC = "commit-sync-time-ns-total"
    COMMITTED = "committed-time-ns-total"


class PollMetrics:
    """The polls of one consumer, and its `commit_sync` and `committed`. Times are monotonic milliseconds."""

    def __init__(self, clock: Clock, now_ms: int) -> None:
        self._clock = clock
        self._gaps = RolledMeter(now_ms)
        self._idle_ratios = RolledMeter(now_ms)
        self._next_roll_ms = now_ms + ROLL_MS
        self._last_poll_ms: int | None = None
        self._gap_ms = 0
        self._total_ns = dict.fromkeys(OffsetCall, 0)

    def poll_began(self, now_ms: int) -> None:
        """Note the begin of a poll."""
        if now_ms >= self._next_roll_ms:
            self._next_roll_ms = now_ms + ROLL_MS
            self._gaps.roll(now_ms)
            self._idle_ratios.roll(now_ms)
        self._gap_ms = 0 if self._last_poll_ms is None else now_ms - self._last_poll_ms
        self._last_poll_ms = now_ms
        self._gaps.record(self._gap_ms)

    def poll_ended(self, now_ms: int) -> None:
        """Note the end of the poll: its share of the time since the poll before began counts as idle."""
        assert self._last_poll_ms is not None
        poll_ms = now_ms - self._last_poll_ms
        # Two polls within a millisecond have no share of it. (Kafka's average is not a number from then on.)
        if poll_ms + self._gap_ms:
            self._idle_ratios.record(poll_ms / (poll_ms + self._gap_ms))

    @contextmanager
    def measured(self, call: OffsetCall) -> Iterator[None]:
        """Add the time of a call about offsets. As in Kafka, a call that raises counts too."""
        began_ns = self._clock.nanoseconds()
        try:
            yield
        finally:
            self._total_ns[call] += self._clock.nanoseconds() - began_ns

    def measure(self, now_ms: int) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each metric."""
        yield "time-between-poll-avg", self._gaps.average()
        yield "time-between-poll-max", self._gaps.maximum()
        yield "poll-idle-ratio-avg", self._idle_ratios.average()
        yield "last-poll-seconds-ago", -1 if self._last_poll_ms is None else (now_ms - self._last_poll_ms) // 1_000
        for call, total_ns in self._total_ns.items():
            yield call.value, total_ns
