"""How long the callers of a producer have waited in its calls, for `metrics()`.

Made by Producer. Any thread that calls it measures and reads; one lock guards the totals. Kafka: KafkaProducerMetrics.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from barnabas.runtime.clock import Clock


class Wait(Enum):
    """A call that waits, by its name in the metric: `flush-time-ns-total` and so on."""

    FLUSH = "flush"
    METADATA = "metadata-wait"
    TXN_INIT = "txn-init"
    TXN_BEGIN = "txn-begin"
    TXN_SEND_OFFSETS = "txn-send-offsets"
    TXN_COMMIT = "txn-commit"
    TXN_ABORT = "txn-abort"
    TXN_PREPARE = "txn-prepare"


class WaitTimes:
    """The nanoseconds of all calls of each kind together, since the producer was made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._totals = dict.fromkeys(Wait, 0)

    @contextmanager
    def measured(self, wait: Wait) -> Iterator[None]:
        """Add the time of the block. As in Kafka, a call that raises does not count."""
        began_ns = self._clock.nanoseconds()
        yield
        waited_ns = self._clock.nanoseconds() - began_ns
        with self._lock:
            self._totals[wait] += waited_ns

    def totals(self) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each metric."""
        with self._lock:
            totals = dict(self._totals)
        for wait, total_ns in totals.items():
            yield f"{wait.value}-time-ns-total", float(total_ns)
