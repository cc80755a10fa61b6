"""A client's metrics as PushTelemetry carries them: OpenTelemetry's MetricsData, in protobuf's wire format (KIP-714).

Called by `ClientTelemetry` for each push, on the client's thread; no lock. The numbers are those of opentelemetry-proto
v1 (metrics.proto, resource.proto, common.proto). Only what clients send is here, which needs no dependency on protobuf.

A field is a key, `number << 3 | type`, and a value. The types in use are 0 (varint), 1 (eight bytes, little-endian) and
2 (a length as a varint, then bytes). A message is its fields, and is itself a field of type 2 of the message around it.

    MetricsData { 1: ResourceMetrics {
        1: Resource { 1: attributes ... }
        2: ScopeMetrics { 2: Metric { 1: name, 5: Gauge { 1: point } or 7: Sum { 1: point, 2: temporality, 3: true } } }
    } }
    point { 2: start, 3: time (nanoseconds), 4: value (double), 7: attributes ... }
    attribute { 1: key, 2: { 1: text } }

Kafka: KafkaMetricsCollector, TelemetryMetricNamingConvention.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.clients.client_metrics import MetricName
from barnabas.protocol.codec_runtime import write_unsigned_varint
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

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
    """The points of one client, which began at `start_ms`: it knows what it has reported of each sum.

    A metric whose name ends with -total is a sum: since the client began, or with delta temporality since the last
    push. Any other metric is a gauge. The tag client-id is left out, since the broker knows the client.

        producer-topic-metrics, record-send-total, topic=t   org.apache.kafka.producer.topic.record.send.total, topic=t
    """

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._told: dict[MetricName, _LastValue] = {}

    def reset(self) -> None:
        """Forget what was reported, because the temporality changes."""
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


_VARINT = 0
_EIGHT_BYTES = 1
_BYTES = 2

_DELTA = 1
_CUMULATIVE = 2


def encode_metrics(resource: Iterable[tuple[str, str]], points: Iterable[MetricPoint]) -> bytes:
    """Encode all points, with the attributes of the client that sends them."""
    scope = b"".join(_message(2, _metric(point)) for point in points)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, scope))


def _metric(point: MetricPoint) -> bytes:
    data_point = b""
    if point.start_ms is not None:
        data_point += _time(2, point.start_ms)
    data_point += _time(3, point.time_ms) + _key(4, _EIGHT_BYTES) + struct.pack("<d", point.value)
    data = _message(1, data_point + _attributes(7, point.attributes))
    if point.start_ms is None:
        return _text(1, point.name) + _message(5, data)
    temporality = _key(2, _VARINT) + write_unsigned_varint(_DELTA if point.is_delta else _CUMULATIVE)
    is_monotonic = _key(3, _VARINT) + write_unsigned_varint(1)
    return _text(1, point.name) + _message(7, data + temporality + is_monotonic)


def _attributes(number: int, attributes: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_message(number, _text(1, key) + _message(2, _text(1, text))) for key, text in attributes)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _time(number: int, time_ms: int) -> bytes:
    return _key(number, _EIGHT_BYTES) + struct.pack("<Q", time_ms * NANOSECONDS_PER_MILLISECOND)


def _message(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + write_unsigned_varint(len(content)) + content


def _key(number: int, wire_type: int) -> bytes:
    return write_unsigned_varint(number << 3 | wire_type)
