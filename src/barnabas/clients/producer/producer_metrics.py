"""A producer's metrics, under Kafka's names, in the groups `producer-metrics` and `producer-topic-metrics`.

The sending thread counts, once for each batch and request, never for a record; threads that call `send` count the
records that never came into a batch. Any thread reads. One lock guards the counters, held for moments.
Kafka: SenderMetricsRegistry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from barnabas.clients.client_metrics import ClientMeter, MetricName, Values
from barnabas.clients.producer.accumulator.buffer_pool import PoolUse
from barnabas.clients.producer.batches.producer_batch import ProducerBatch

_GROUP = "producer-metrics"
_TOPIC_GROUP = "producer-topic-metrics"


class ClientState(NamedTuple):
    """What is measured at the moment of reading. The age of the metadata is NaN before the first answer.

    `wait_times`: the names and values of WaitTimes.
    """

    pool: PoolUse
    requests_in_flight: int
    metadata_age_seconds: float
    wait_times: tuple[tuple[str, float], ...] = ()


class _Counters:
    """The counters that there are for the producer and for each of its topics."""

    __slots__ = ("compression", "errors", "records", "retries")

    def __init__(self) -> None:
        self.records = ClientMeter()
        self.retries = ClientMeter()
        self.errors = ClientMeter()
        self.compression = Values()

    def measure(self, now_ms: int) -> Iterator[tuple[str, float]]:
        for name, meter in (("send", self.records), ("retry", self.retries), ("error", self.errors)):
            yield f"record-{name}-rate", meter.rate(now_ms)
            yield f"record-{name}-total", meter.total


class _Topic(_Counters):
    """The counters of one topic."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.bytes = ClientMeter()

    def measure(self, now_ms: int) -> Iterator[tuple[str, float]]:
        yield from super().measure(now_ms)
        yield "byte-rate", self.bytes.rate(now_ms)
        yield "byte-total", self.bytes.total
        yield "compression-rate", self.compression.average(now_ms)


class ProducerMetrics:
    """The metrics of one producer. `now` gives monotonic milliseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._all = _Counters()
        self._topics: dict[str, _Topic] = {}
        self._batch_bytes = Values()
        self._queue_ms = Values()
        self._request_records = Values()
        self._latency_ms = Values()
        self._throttle_ms = Values()
        self._splits = ClientMeter()

    # -- the sending thread

    def request_sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Count the encoded batches of one request."""
        with self._lock:
            records = 0
            for batch in batches:
                size = len(batch.data or b"")
                ratio = size / batch.uncompressed_bytes
                records += batch.record_count
                self._batch_bytes.record(size, now_ms)
                self._queue_ms.record(now_ms - batch.created_ms, now_ms)
                self._all.compression.record(ratio, now_ms)
                topic = self._topic(batch.topic_partition.topic)
                topic.records.record(batch.record_count, now_ms)
                topic.bytes.record(size, now_ms)
                topic.compression.record(ratio, now_ms)
            self._all.records.record(records, now_ms)
            self._request_records.record(records, now_ms)

    def request_answered(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Count an answer."""
        with self._lock:
            self._latency_ms.record(latency_ms, now_ms)
            self._throttle_ms.record(throttle_ms, now_ms)

    def batch_retried(self, batch: ProducerBatch, now_ms: int) -> None:
        """Count the records of a batch that will be sent again."""
        with self._lock:
            self._all.retries.record(batch.record_count, now_ms)
            self._topic(batch.topic_partition.topic).retries.record(batch.record_count, now_ms)

    def batch_split(self, now_ms: int) -> None:
        """Count a batch that was too large."""
        with self._lock:
            self._splits.record(1, now_ms)

    # -- any thread

    def records_failed(self, topic: str, record_count: int) -> None:
        """Count records that were not delivered."""
        now_ms = self._now()
        with self._lock:
            self._all.errors.record(record_count, now_ms)
            self._topic(topic).errors.record(record_count, now_ms)

    def measure(self, client_id: str, state: ClientState) -> dict[MetricName, float]:
        """Return all values; not a number where nothing was measured in the last minute."""
        now_ms = self._now()
        tags: tuple[tuple[str, str], ...] = (("client-id", client_id),)
        measured: dict[MetricName, float] = {}
        with self._lock:
            for name, value in (*self._all.measure(now_ms), *self._averages(now_ms), *_state_values(state)):
                measured[MetricName(name, _GROUP, tags)] = value
            for topic, counters in self._topics.items():
                for name, value in counters.measure(now_ms):
                    measured[MetricName(name, _TOPIC_GROUP, (*tags, ("topic", topic)))] = value
        return measured

    def _averages(self, now_ms: int) -> Iterator[tuple[str, float]]:
        for name, values in (
            ("batch-size", self._batch_bytes),
            ("record-queue-time", self._queue_ms),
            ("request-latency", self._latency_ms),
            ("produce-throttle-time", self._throttle_ms),
        ):
            yield f"{name}-avg", values.average(now_ms)
            yield f"{name}-max", values.extreme(now_ms)
        yield "compression-rate-avg", self._all.compression.average(now_ms)
        yield "records-per-request-avg", self._request_records.average(now_ms)
        yield "batch-split-rate", self._splits.rate(now_ms)
        yield "batch-split-total", self._splits.total

    def _topic(self, name: str) -> _Topic:
        counters = self._topics.get(name)
        if counters is None:
            counters = self._topics[name] = _Topic()
        return counters


def _state_values(state: ClientState) -> Iterator[tuple[str, float]]:
    pool = state.pool
    yield "requests-in-flight", state.requests_in_flight
    yield "metadata-age", state.metadata_age_seconds
    yield "buffer-total-bytes", pool.total_bytes
    yield "buffer-available-bytes", pool.available_bytes
    yield "bufferpool-wait-ratio", pool.wait_ratio
    yield "bufferpool-wait-time-ns-total", pool.waited_ns
    yield "buffer-exhausted-rate", pool.exhausted_rate
    yield "buffer-exhausted-total", pool.exhausted
    yield "waiting-threads", pool.waiting
    yield from state.wait_times
