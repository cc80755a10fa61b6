"""Counts of what is produced to and fetched from topics, by topic and for all topics.

Marked by the replica layer and by the produce and fetch handlers on any thread; read by the metrics registry. Each
thread counts in objects of its own, so that an addition needs no lock and loses nothing on any build of Python; readers
add the threads up. `_lock` guards the list of threads and the totals of deleted topics. What a thread adds to a topic
while that topic's last partition is deleted may stay uncounted. docs/kafka-facts.md, topic metrics, says what counts.

Kafka: BrokerTopicStats, BrokerTopicMetrics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.metrics.meter import NO_RATES, Rates, decayed
from barnabas.metrics.metrics_registry import MBeanName, Sample
from barnabas.runtime.locks import Lock

if TYPE_CHECKING:
    from mypy_extensions import i64


class _Counter(NamedTuple):
    """Kafka's name of a counter, and its description."""

    name: str
    description: str


COUNTERS: Final = {
    "messages_in": _Counter("MessagesInPerSec", "Records appended"),
    "bytes_in": _Counter("BytesInPerSec", "Bytes appended"),
    "bytes_out": _Counter("BytesOutPerSec", "Bytes sent to consumers"),
    "bytes_rejected": _Counter("BytesRejectedPerSec", "Bytes refused because a batch was too large"),
    "failed_produce_requests": _Counter("FailedProduceRequestsPerSec", "Produces that failed for a reason on our side"),
    "failed_fetch_requests": _Counter("FailedFetchRequestsPerSec", "Fetches that failed for a reason on our side"),
    "total_produce_requests": _Counter("TotalProduceRequestsPerSec", "Produces, each partition of a request counted"),
    "total_fetch_requests": _Counter("TotalFetchRequestsPerSec", "Fetches, each partition of a request counted"),
    "fetch_message_conversions": _Counter("FetchMessageConversionsPerSec", "Records converted on their way out"),
    "produce_message_conversions": _Counter("ProduceMessageConversionsPerSec", "Records converted on their way in"),
    "no_key_compacted_topic_records": _Counter(
        "NoKeyCompactedTopicRecordsPerSec", "Records refused: without a key in a compacted topic"
    ),
    "invalid_magic_number_records": _Counter("InvalidMagicNumberRecordsPerSec", "Records refused: of a wrong format"),
    "invalid_message_crc_records": _Counter("InvalidMessageCrcRecordsPerSec", "Records refused: damaged"),
    "invalid_offset_or_sequence_records": _Counter(
        "InvalidOffsetOrSequenceRecordsPerSec", "Records refused: offsets or sequence numbers that do not follow"
    ),
    "replication_bytes_in": _Counter("ReplicationBytesInPerSec", "Bytes copied from leaders"),
    "replication_bytes_out": _Counter("ReplicationBytesOutPerSec", "Bytes sent to followers"),
    "reassignment_bytes_in": _Counter("ReassignmentBytesInPerSec", "Bytes copied because of a reassignment"),
    "reassignment_bytes_out": _Counter("ReassignmentBytesOutPerSec", "Bytes sent because of a reassignment"),
}
"""Attribute of TopicStats -> counter."""

ONLY_FOR_ALL_TOPICS: Final = frozenset(
    {"replication_bytes_in", "replication_bytes_out", "reassignment_bytes_in", "reassignment_bytes_out"}
)

UNHOSTED: Final = ""
"""The name under which topics are counted that this broker does not host."""


class TopicStats:
    """The counters of one topic. The object that `BrokerTopicStats.topic` returns belongs to the calling thread."""

    __slots__ = tuple(COUNTERS)

    def __init__(self) -> None:
        self.messages_in: i64 = 0
        self.bytes_in: i64 = 0
        self.bytes_out: i64 = 0
        self.bytes_rejected: i64 = 0
        self.failed_produce_requests: i64 = 0
        self.failed_fetch_requests: i64 = 0
        self.total_produce_requests: i64 = 0
        self.total_fetch_requests: i64 = 0
        self.fetch_message_conversions: i64 = 0
        self.produce_message_conversions: i64 = 0
        self.no_key_compacted_topic_records: i64 = 0
        self.invalid_magic_number_records: i64 = 0
        self.invalid_message_crc_records: i64 = 0
        self.invalid_offset_or_sequence_records: i64 = 0
        self.replication_bytes_in: i64 = 0
        self.replication_bytes_out: i64 = 0
        self.reassignment_bytes_in: i64 = 0
        self.reassignment_bytes_out: i64 = 0

    def add(self, other: TopicStats) -> None:
        """Add the counts of `other`."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class BrokerTopicStats:
    """The counters of all topics, with rates. A metric family.

    is_hosted: whether this broker has partitions of a topic. All others are counted together, as UNHOSTED: clients may
    ask for any number of names, each of which would be kept.
    """

    def __init__(self, is_hosted: Callable[[str], bool] = lambda _: True) -> None:
        self._is_hosted = is_hosted
        self._lock = Lock()
        self._threads: list[dict[str, TopicStats]] = []
        self._gone = TopicStats()
        self._of_thread = threading.local()
        """Its `topics`: the counters of the current thread by topic."""
        self._seen: dict[str, TopicStats] = {}
        self._seen_requests: dict[str, int] = {}
        self._rates: dict[str, dict[str, Rates]] = {}
        self._rates_of_all = dict.fromkeys(COUNTERS, NO_RATES)

    def topic(self, name: str) -> TopicStats:
        """Return the calling thread's counters of a topic."""
        try:
            topics: dict[str, TopicStats] = self._of_thread.topics
        except AttributeError:
            topics = self._of_thread.topics = {}
            with self._lock:
                self._threads.append(topics)
        try:
            return topics[name]
        except KeyError:
            # A topic that was counted before costs one look-up and never comes here. Names that are not hosted come
            # here each time, and share one object.
            return topics.setdefault(name if self._is_hosted(name) else UNHOSTED, TopicStats())

    def totals(self, topic: str) -> TopicStats:
        """Return the counts of a topic, summed over all threads."""
        # `get`, since another thread may be removing the topic.
        of_threads = [topics.get(topic) for topics in self._snapshot()]
        return _sum(stats for stats in of_threads if stats is not None)

    @property
    def all_topics(self) -> TopicStats:
        """The counts of all topics, deleted ones included."""
        with self._lock:
            # Before the threads: `remove_topic` moves counts from a thread to `_gone`, so that a removal in between may
            # hide counts once but never doubles them.
            gone = _sum([self._gone])
        for topics in self._snapshot():
            for stats in list(topics.values()):
                gone.add(stats)
        return gone

    def topic_names(self) -> list[str]:
        """Return the topics with counters."""
        return sorted({name for topics in self._snapshot() for name in list(topics)} - {UNHOSTED})

    def remove_topic(self, name: str) -> None:
        """Drop the metrics of a topic whose last partition has left this broker.

        The totals of all topics keep its counts.
        """
        with self._lock:
            for topics in self._threads:
                stats = topics.pop(name, None)
                if stats is not None:
                    self._gone.add(stats)
            self._seen.pop(name, None)
            self._rates.pop(name, None)

    # -- as a metric family

    def samples(self) -> Iterator[Sample]:
        """Yield every counter of every topic with counters, and of all topics together."""
        yield from self._samples_of(self.all_topics, COUNTERS, (), self._rates_of_all)
        per_topic = [name for name in COUNTERS if name not in ONLY_FOR_ALL_TOPICS]
        for topic in self.topic_names():
            rates = self._rates.get(topic, {})
            yield from self._samples_of(self.totals(topic), per_topic, (("topic", topic),), rates)

    def tick(self, elapsed_seconds: float) -> None:
        """Update the rates.

        A topic that had no request since the last tick, and has no rate left, costs a comparison.
        """
        events_of_all = dict.fromkeys(COUNTERS, 0)
        requests = self._requests()
        seen = self._seen_requests
        changed = [topic for topic, number in requests.items() if seen.get(topic) != number]
        for topic in {*changed, *list(self._rates)}:
            self._tick_topic(topic, elapsed_seconds, events_of_all)
        self._seen_requests = requests
        with self._lock:
            # A topic that was removed while this tick ran has been put back by `_tick_topic`.
            for gone in self._seen.keys() - requests.keys():
                del self._seen[gone]
        self._rates_of_all = {
            name: decayed(rates, events_of_all[name], elapsed_seconds) for name, rates in self._rates_of_all.items()
        }

    def _tick_topic(self, topic: str, elapsed_seconds: float, events_of_all: dict[str, int]) -> None:
        before = self._seen.get(topic) or TopicStats()
        now = self.totals(topic)
        rates = self._rates.get(topic, {})
        updated = {}
        for name in COUNTERS:
            # Fewer than before: the topic was deleted, and another one of that name counts from 0.
            events = max(0, getattr(now, name) - getattr(before, name))
            events_of_all[name] += events
            rate = decayed(rates.get(name, NO_RATES), events, elapsed_seconds)
            if rate is not NO_RATES:
                updated[name] = rate
        with self._lock:
            self._seen[topic] = now
            if updated:
                self._rates[topic] = updated
            else:
                self._rates.pop(topic, None)

    def _requests(self) -> dict[str, int]:
        """Return the number of requests by topic, which tells the topics in use from thousands that are idle."""
        requests: dict[str, int] = {}
        for topics in self._snapshot():
            for name, stats in list(topics.items()):
                requests[name] = requests.get(name, 0) + stats.total_produce_requests + stats.total_fetch_requests
        return requests

    @staticmethod
    def _samples_of(
        stats: TopicStats, names: Iterable[str], tags: tuple[tuple[str, str], ...], rates: dict[str, Rates]
    ) -> Iterator[Sample]:
        for name in names:
            metric = MBeanName("kafka.server", "BrokerTopicMetrics", COUNTERS[name].name, tags)
            yield Sample(metric, getattr(stats, name), COUNTERS[name].description, rates.get(name, NO_RATES))

    def _snapshot(self) -> list[dict[str, TopicStats]]:
        with self._lock:
            return list(self._threads)


def _sum(parts: Iterable[TopicStats]) -> TopicStats:
    total = TopicStats()
    for part in parts:
        total.add(part)
    return total
