"""The values of a client's metrics as telemetry names and counts them (KIP-714).

Used by `ClientTelemetry`, on the client's thread; no lock. Kafka: KafkaMetricsCollector,
TelemetryMetricNamingConvention.

A metric whose name ends with -total is a sum: since the client began, or with delta temporality since the last push.
Any other metric is a gauge. The tag client-id is left out, since the broker knows the client.

    producer-topic-metrics, record-send-total, topic=t   org.apache.kafka.producer.topic.record.send.total, topic=t
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from barnabas.clients.client_metrics import MetricName

_DOMAIN = "org.apache.kafka"


class MetricPoint(NamedTuple):
    """One value. Times are wall-clock milliseconds; `start_ms` is None for a gauge, which has no beginning."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    time_ms: int
    start_ms: int | None = None
    is_delta: bool = False


class _LastValue(NamedTuple):
    """What the last push said of a sum."""

    value: float
    time_ms: int


class MetricPoints:
    """The points of one client, which began at `start_ms`: it knows what it has told of each sum."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._told: dict[MetricName, _LastValue] = {}

    def reset(self) -> None:
        """Forget what was told, because the temporality changes."""
        self._told.clear()

    def collect(
        self, measured: Mapping[MetricName, float], wants: Callable[[str], bool], now_ms: int, *, is_delta: bool
    ) -> Iterator[MetricPoint]:
        """Yield the points whose names are wanted. A statistic without a value (not a number) is left out."""
        for metric, value in measured.items():
            name = telemetry_name(metric)
            if math.isnan(value) or not wants(name):
                continue
            attributes = tuple((tag.replace("-", "_"), text) for tag, text in metric.tags if tag != "client-id")
            point = MetricPoint(name, attributes, value, now_ms)
            if not metric.name.endswith("-total"):
                yield point
            elif not is_delta:
                yield point._replace(start_ms=self._start_ms)
            else:
                last = self._told.get(metric, _LastValue(0.0, self._start_ms))
                self._told[metric] = _LastValue(value, now_ms)
                yield point._replace(value=value - last.value, start_ms=last.time_ms, is_delta=True)


def telemetry_name(metric: MetricName) -> str:
    """Return the name of a metric in telemetry."""
    group = metric.group.lower().replace("-", ".").replace(".metrics", "")
    return f"{_DOMAIN}.{group}.{metric.name.lower().replace('-', '.')}"
