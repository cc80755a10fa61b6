"""What a Processor counts. Plain attributes of its thread, which others read and sum; a read may be a moment late.

`selector_counters` names what its Selector counts, as Kafka's group socket-server-metrics does.
Kafka: the metrics of Processor and Selector (NetworkProcessorAvgIdlePercent, connection-count ...).
"""

from __future__ import annotations

from barnabas.transport.selector import Selector


class ProcessorMetrics:
    """Counters since the start."""

    __slots__ = ("inline_requests", "invalid_requests", "queued_requests", "selector")

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.inline_requests = 0
        self.queued_requests = 0
        self.invalid_requests = 0

    @property
    def idle_ns(self) -> int:
        """Time spent waiting in the poll."""
        return self.selector.idle_ns
