"""Decides how much the next micro-batch reads: nothing yet, a share of what waits, or all of it.

Owned by the stream reader, in a Python process on the driver, on one thread; no lock. The clock is passed in. Spark:
KafkaMicroBatchStream.latestOffset.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_spark.offset_ranges import limit_offsets
from barnabas_spark.source_options import ReadLimits
from barnabas_spark.topic_offsets import Offsets


class TriggerLimits:
    """The limits of a query's micro-batches. `now_ms` is a monotonic clock."""

    def __init__(self, limits: ReadLimits, now_ms: Callable[[], int]) -> None:
        self._limits = limits
        self._now_ms = now_ms
        self._last_batch_ms: int | None = None

    def end_of_batch(self, start: Offsets, latest: Offsets) -> Offsets:
        """Return the end of the next micro-batch: `start` itself while too few offsets wait.

        `start` has every partition of `latest`.
        """
        if self._has_to_wait(start, latest):
            return dict(start)
        largest = self._limits.max_offsets_per_trigger
        return dict(latest) if largest is None else limit_offsets(start, latest, largest)

    def _has_to_wait(self, start: Offsets, latest: Offsets) -> bool:
        smallest = self._limits.min_offsets_per_trigger
        if smallest is None:
            return False
        now_ms = self._now_ms()
        # The first micro-batch never waits: a query that starts again may have been away for longer than the delay.
        is_due = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._limits.max_trigger_delay_ms
        if not is_due and sum(stop - start[partition] for partition, stop in latest.items()) < smallest:
            return True
        self._last_batch_ms = now_ms
        return False
