"""The metrics of verifications: how long the coordinators of transactions took, and what they refused.

Made by `broker`, counted by TransactionVerification on any thread, read by the reporters of metrics. `_lock` guards
the counts. Kafka: AddPartitionsToTxnManager.
"""

from __future__ import annotations

import threading
from typing import Final

from barnabas.metrics.histogram import Histogram
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

_GROUP: Final = "kafka.server"
_KIND: Final = "AddPartitionsToTxnManager"


class VerificationMetrics:
    """The counts. failures: partitions that may not be written to. times_ms: from a question to its answer."""

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.nanoseconds
        self.failures = Meter()
        self.times_ms = Histogram()
        self._lock = threading.Lock()

    def register(self, registry: MetricsRegistry) -> None:
        """Register both by Kafka's names."""
        registry.meter(_GROUP, _KIND, "VerificationFailureRate", self.failures)
        registry.histogram(_GROUP, _KIND, "VerificationTimeMs", self.times_ms)

    def count(self, asked_ns: int, failures: int) -> None:
        """Count an answer to the question that was asked at `asked_ns`, with this number of failures."""
        took_ms = (self.now_ns() - asked_ns) // NANOSECONDS_PER_MILLISECOND
        with self._lock:
            self.failures.count += failures
            self.times_ms.update(took_ms)
