"""The metrics of a consumer's fetches, by Kafka's names, in the group `consumer-fetch-manager-metrics`.

Filled by the Fetcher and the FetchBuffer: once for each answer, and once for each piece that `poll` takes from one;
nothing is counted for each record. Owned by the consumer's thread; no lock. Kafka: FetchMetricsManager,
FetchMetricsRegistry, FetchMetricsAggregator.

An answer counts when the records of all its partitions were read or dropped, with what was read of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.clients.client_metrics import ClientMeter, MetricName, Values
from barnabas.clients.consumer.subscription_state import SubscriptionState, TopicPartitionState
from barnabas.protocol.topic_partition import TopicPartition

GROUP = "consumer-fetch-manager-metrics"


class Consumed(NamedTuple):
    """What was read of an answer: the size of the batches, and the number of records."""

    record_bytes: int = 0
    records: int = 0


class Measurement(NamedTuple):
    """A metric without its group and client id."""

    name: str
    value: float
    tags: tuple[tuple[str, str], ...] = ()


class _Consumption:
    """What was read: of one topic, or of all."""

    __slots__ = ("_bytes", "_fetch_sizes", "_records", "_records_per_request")

    def __init__(self) -> None:
        self._bytes = ClientMeter()
        self._fetch_sizes = Values()
        self._records = ClientMeter()
        self._records_per_request = Values()

    def record(self, consumed: Consumed, now_ms: int) -> None:
        self._bytes.record(consumed.record_bytes, now_ms)
        self._fetch_sizes.record(consumed.record_bytes, now_ms)
        self._records.record(consumed.records, now_ms)
        self._records_per_request.record(consumed.records, now_ms)

    def measure(self, now_ms: int, tags: tuple[tuple[str, str], ...] = ()) -> Iterator[Measurement]:
        yield Measurement("fetch-size-avg", self._fetch_sizes.average(now_ms), tags)
        yield Measurement("fetch-size-max", self._fetch_sizes.extreme(now_ms), tags)
        yield Measurement("bytes-consumed-rate", self._bytes.rate(now_ms), tags)
        yield Measurement("bytes-consumed-total", self._bytes.total, tags)
        yield Measurement("records-per-request-avg", self._records_per_request.average(now_ms), tags)
        yield Measurement("records-consumed-rate", self._records.rate(now_ms), tags)
        yield Measurement("records-consumed-total", self._records.total, tags)


class _Distances:
    """How far a partition's position is from the end of the log (lag) and from its start (lead)."""

    __slots__ = ("lag", "lead")

    def __init__(self) -> None:
        self.lag = Values(max)
        self.lead = Values(min)


class FetchMetrics:
    """The metrics of one consumer. `now_ms`: returns the monotonic time in milliseconds."""

    def __init__(self, client_id: str, subscriptions: SubscriptionState, now_ms: Callable[[], int]) -> None:
        self._client_id = client_id
        self._subscriptions = subscriptions
        self._now_ms = now_ms
        self._all = _Consumption()
        self._topics: dict[str, _Consumption] = {}
        self._latencies = Values()
        self._throttle_times = Values()
        self._requests = ClientMeter()
        self._farthest = _Distances()
        self._distances: dict[TopicPartition, _Distances] = {}

    # -- recording

    def answered(self, latency_ms: int, throttle_time_ms: int) -> None:
        """Take note of an answer, when it arrives."""
        now_ms = self._now_ms()
        self._latencies.record(latency_ms, now_ms)
        self._throttle_times.record(throttle_time_ms, now_ms)
        self._requests.record(1, now_ms)

    def consumed(self, by_topic: Mapping[str, Consumed]) -> None:
        """Take note of what was read of one answer."""
        now_ms = self._now_ms()
        for topic, consumed in by_topic.items():
            self._topic(topic).record(consumed, now_ms)
        record_bytes = sum(each.record_bytes for each in by_topic.values())
        self._all.record(Consumed(record_bytes, sum(each.records for each in by_topic.values())), now_ms)

    def advanced(self, topic_partition: TopicPartition, state: TopicPartitionState) -> None:
        """Take note of a position behind records that were returned."""
        offset = state.offset
        assert offset is not None
        distances = self._distances.get(topic_partition)
        if distances is None:
            distances = self._distances[topic_partition] = _Distances()
        now_ms = self._now_ms()
        if state.log.high_watermark is not None:
            lag = max(state.log.high_watermark - offset, 0)
            distances.lag.record(lag, now_ms)
            self._farthest.lag.record(lag, now_ms)
        if state.log.start_offset is not None:
            lead = offset - state.log.start_offset
            distances.lead.record(lead, now_ms)
            self._farthest.lead.record(lead, now_ms)

    def _topic(self, topic: str) -> _Consumption:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Consumption()
        return found

    # -- reading

    def measure(self) -> dict[MetricName, float]:
        """Return all metrics now. A statistic without a value is not a number."""
        now_ms = self._now_ms()
        # Partitions that were given away are forgotten here: `advanced` is called too often for it.
        assigned = self._subscriptions.partitions
        self._distances = {each: found for each, found in self._distances.items() if each in assigned}
        client = (("client-id", self._client_id),)
        return {
            MetricName(each.name, GROUP, client + each.tags): each.value
            for found in (self._of_client(now_ms), self._of_topics(now_ms), self._of_partitions(now_ms))
            for each in found
        }

    def _of_client(self, now_ms: int) -> Iterator[Measurement]:
        yield from self._all.measure(now_ms)
        yield Measurement("fetch-latency-avg", self._latencies.average(now_ms))
        yield Measurement("fetch-latency-max", self._latencies.extreme(now_ms))
        yield Measurement("fetch-rate", self._requests.rate(now_ms))
        yield Measurement("fetch-total", self._requests.total)
        yield Measurement("fetch-throttle-time-avg", self._throttle_times.average(now_ms))
        yield Measurement("fetch-throttle-time-max", self._throttle_times.extreme(now_ms))
        yield Measurement("records-lag-max", self._farthest.lag.extreme(now_ms))
        yield Measurement("records-lead-min", self._farthest.lead.extreme(now_ms))

    def _of_topics(self, now_ms: int) -> Iterable[Measurement]:
        for topic, consumption in self._topics.items():
            yield from consumption.measure(now_ms, (("topic", _tag(topic)),))

    def _of_partitions(self, now_ms: int) -> Iterable[Measurement]:
        for topic_partition, state in self._subscriptions.partitions.items():
            tags = (("topic", _tag(topic_partition.topic)), ("partition", str(topic_partition.partition)))
            preferred = state.preferred_replica
            yield Measurement("preferred-read-replica", -1 if preferred is None else preferred.node_id, tags)
            found = self._distances.get(topic_partition)
            if found is None:
                continue
            yield Measurement("records-lag", found.lag.last, tags)
            yield Measurement("records-lag-avg", found.lag.average(now_ms), tags)
            yield Measurement("records-lag-max", found.lag.extreme(now_ms), tags)
            yield Measurement("records-lead", found.lead.last, tags)
            yield Measurement("records-lead-avg", found.lead.average(now_ms), tags)
            yield Measurement("records-lead-min", found.lead.extreme(now_ms), tags)


def _tag(topic: str) -> str:
    """Return a topic as Kafka's clients write it in tags: dots would end a part of the name in some reporters."""
    return topic.replace(".", "_")
