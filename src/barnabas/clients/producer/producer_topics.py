"""The topics that a producer uses, the wait of its users for their metadata, and the times of all waits.

Any thread of the user's; the snapshot is immutable, and ClusterMetadata has its own lock.
Kafka: KafkaProducer.waitOnMetadata, KafkaProducerMetrics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from barnabas.clients.errors import ClientTimeout, NotInMetadata, Unreachable
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
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
    """The nanoseconds of all calls of each kind together, since the producer was made, under one lock."""

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


# Once a second is enough to keep a topic from being dropped as idle, and spares each `send` the metadata's lock.
_TOUCH_INTERVAL_MS = 1_000


class KnownTopic(NamedTuple):
    """A snapshot with the topic, the number of its partitions, and how much of `max_block_ms` is left."""

    cluster: Cluster
    partition_count: int
    left_ms: float


class _Fresh(NamedTuple):
    """A topic as it was found last. After `until_ms` it is marked as used again."""

    known: KnownTopic
    until_ms: int


class ProducerTopics:
    """The topics that a producer uses. `now` gives monotonic milliseconds; `wakeup` wakes the sending thread."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        max_block_ms: int,
        now: Callable[[], int],
        wakeup: Callable[[], None],
        waits: WaitTimes,
    ) -> None:
        self._metadata = metadata
        self._max_block_ms = max_block_ms
        self._now = now
        self._wakeup = wakeup
        self.waits = waits
        self._fresh: dict[str, _Fresh] = {}
        """What `send` finds for every record but the first of a second. No lock: a lost update costs one more turn."""

    def wait(self, topic: str, partition: int | None, timeout_ms: int | None = None) -> KnownTopic:
        """Wait until the snapshot has the topic and the partition.

        Raises ClientTimeout after `timeout_ms` (None: `max_block_ms`), ApiError for a topic that cannot be described,
        ClientClosed.
        """
        fresh = self.fresh(topic, partition)
        if fresh is not None:
            return fresh
        now_ms = self._now()
        self._metadata.add_topic(topic, now_ms)
        cluster = self._metadata.cluster
        count = cluster.partition_count(topic)
        if count is not None and (partition is None or partition < count):
            known = KnownTopic(cluster, count, self._max_block_ms)
            self._fresh[topic] = _Fresh(known, now_ms + _TOUCH_INTERVAL_MS)
            return known
        with self.waits.measured(Wait.METADATA):
            limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
            return self._wait_for_update(topic, partition, now_ms, count, limit_ms)

    def fresh(self, topic: str, partition: int | None) -> KnownTopic | None:
        """Return the topic if `wait` has found it, with the partition, in this snapshot and less than a second ago."""
        fresh = self._fresh.get(topic)
        if fresh is None:
            return None
        known, until_ms = fresh
        is_current = known.cluster is self._metadata.cluster and self._now() < until_ms
        return known if is_current and (partition is None or partition < known.partition_count) else None

    def _wait_for_update(
        self, topic: str, partition: int | None, now_ms: int, count: int | None, limit_ms: int
    ) -> KnownTopic:
        """Wait for updates of the metadata until one has the topic and the partition. `count`: the partitions so far.

        Raises ClientTimeout after `limit_ms` (Unreachable if no broker was ever reached, NotInMetadata if one has
        answered meanwhile), ApiError for a topic that cannot be described, ClientClosed, and the error because of
        which no metadata request can ever be sent.
        """
        deadline_ms = now_ms + limit_ms
        kind: type[ClientTimeout] = ClientTimeout
        while True:
            # In each turn again: the topic may have been dropped as idle while this thread waited for it.
            self._metadata.add_topic(topic, now_ms)
            # The version is read before the wake-up, so that an update which arrives in between ends the wait at once.
            version = self._metadata.request_update_for_topic(topic)
            self._wakeup()
            try:
                self._metadata.await_update(version, max(deadline_ms - self._now(), 0))
            except Unreachable:
                raise
            except ClientTimeout:
                text = _missing(topic, partition, count, limit_ms)
                raise kind(self._metadata.with_last_failure(text)) from None
            kind = NotInMetadata
            cluster = self._metadata.cluster
            self._metadata.raise_topic_error(topic)
            count = cluster.partition_count(topic)
            if count is not None and (partition is None or partition < count):
                return KnownTopic(cluster, count, max(deadline_ms - self._now(), 0))

    # -- the same without waiting, for an event loop

    def has(self, topic: str, partition: int | None) -> bool:
        """Return whether the snapshot has the topic and the partition: `wait` returns at once then."""
        count = self._metadata.cluster.partition_count(topic)
        return count is not None and (partition is None or partition < count)

    def request(self, topic: str) -> int:
        """Request an update with the topic. Returns the version for `is_updated`."""
        self._metadata.add_topic(topic, self._now())
        version = self._metadata.request_update_for_topic(topic)
        self._wakeup()
        return version

    def is_updated(self, topic: str, version: int) -> bool:
        """Return whether the metadata were updated since `request` returned this version.

        Raises Unreachable after `bootstrap_timeout_ms`, ApiError for a topic that cannot be described, ClientClosed,
        and the error because of which no metadata request can ever be sent.
        """
        try:
            self._metadata.await_update(version, 0)
        except ClientTimeout:
            self._metadata.raise_unreachable()
            return False
        self._metadata.raise_topic_error(topic)
        return True

    def missing(self, topic: str, partition: int | None, waited_ms: int) -> ClientTimeout:
        """Return the error of a wait for the topic: Unreachable if no broker was ever reached."""
        count = self._metadata.cluster.partition_count(topic)
        return self._metadata.timeout(_missing(topic, partition, count, waited_ms))


def _missing(topic: str, partition: int | None, count: int | None, waited_ms: int) -> str:
    what = f"Topic {topic}" if count is None else f"Partition {partition} of topic {topic}"
    detail = "" if count is None else f" with partition count {count}"
    return f"{what}{detail} not present in metadata after {waited_ms} ms."
