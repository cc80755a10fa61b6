"""The metrics of client quotas by Kafka's names: one set for each share of a quota, while the share exists.

Registered by `broker`; read by any thread that publishes metrics. No state.

Kafka: ClientQuotaManager, the metrics of it and its two subclasses (`kafka.server:type=Produce,user=..`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.quota.client_quota_manager import ClientQuotaManager
from barnabas.quota.quota_managers import QuotaManagers

GROUP = "kafka.server"
DESCRIPTIONS = {
    "byte-rate": "Bytes a second",
    "request-time": "Percent of a thread's time spent on the client's requests",
    "mutation-rate": "Partitions created and deleted a second",
    "tokens": "Partitions that may be created or deleted at once",
    "throttle-time": "Mean milliseconds that quotas held the client up",
}
"""Kafka's name of a sensor's value -> its description."""


class QuotaMetrics:
    """A family of metrics (MetricsRegistry): its members are the sensors of one manager."""

    def __init__(self, manager: ClientQuotaManager, quotas: QuotaManagers) -> None:
        self._manager = manager
        self._quotas = quotas

    def samples(self) -> Iterable[Sample]:
        """Return every share's values now. A tag without a value is left out, as JMX does."""
        return list(self._samples())

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing: these rates are computed when they are read."""

    def _samples(self) -> Iterator[Sample]:
        now_ms = self._quotas.now_ms()
        kind = self._manager.quota_type.value
        for sensor in self._manager.sensors():
            share = sensor.share
            tags = tuple((tag, text) for tag, text in (("user", share.user), ("client-id", share.client_id)) if text)
            for name, value in sensor.values(now_ms):
                yield Sample(MBeanName(GROUP, kind, name, tags, is_attribute=True), value, DESCRIPTIONS[name])


def register_quota_metrics(registry: MetricsRegistry, quotas: QuotaManagers) -> None:
    """Register the metrics of all quotas."""
    for manager in quotas:
        registry.family(QuotaMetrics(manager, quotas))
        kind, text = manager.quota_type.value, "Connections held up by this quota now"
        registry.register_attribute(GROUP, kind, "queue-size", text, _queue_size_of(manager))
    registry.register_attribute(
        GROUP,
        "Request",
        "exempt-request-time",
        "Percent of a thread's time spent on requests that no quota is for",
        lambda: quotas.request.exempt_request_time(quotas.now_ms()),
    )


def _queue_size_of(manager: ClientQuotaManager) -> Callable[[], float]:
    return lambda: manager.throttled_channels
