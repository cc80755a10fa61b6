"""What a client knows of its cluster, and when that must be fetched again (Kafka: Metadata, ProducerMetadata).

Shared by the threads that use a client and the one that sends: `cluster` is an immutable snapshot read without a lock,
everything else is guarded by one condition, notified after each update.

An update is full (all topics of interest; replaces the snapshot) or partial (only topics new since the last request;
merged into it). At most one request is in progress. A disconnect asks for a full update: the lost broker may have
moved. Leader epochs never go back: an answer from a broker that lags behind doesn't undo what is known.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from barnabas.clients.cluster import Cluster, PartitionInfo
from barnabas.clients.errors import ClientClosed, ClientTimeout, error_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.node import Node

logger = logging.getLogger(__name__)

INVALID_METADATA_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that mean that what we know of the cluster is out of date (Kafka: InvalidMetadataException)."""

TopicFilter: TypeAlias = Callable[[str, bool], bool]
"""Whether a topic is of interest, by its name and whether it is an internal one."""

_TOPIC_ERRORS_TO_RAISE = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


@dataclass(frozen=True)
class MetadataConfig:
    """Kafka's settings of the same names, in milliseconds. `topic_idle_ms` None: topics are kept for ever."""

    max_age_ms: int = 300_000
    topic_idle_ms: int | None = None
    refresh_backoff_ms: int = 100
    refresh_backoff_max_ms: int = 1_000
    allow_auto_topic_creation: bool = True


class ClusterMetadata:
    """See the module's text. Times are the client's monotonic milliseconds."""

    def __init__(self, bootstrap: Sequence[Node], config: MetadataConfig, random: Random | None = None) -> None:
        self._bootstrap = tuple(bootstrap)
        self._config = config
        self._backoff = ExponentialBackoff(config.refresh_backoff_ms, config.refresh_backoff_max_ms, random)
        self._condition = threading.Condition()
        self.cluster = Cluster(self._bootstrap, is_bootstrap=True)
        self._topics: dict[str, int] = {}
        """Topics of interest, with the time each was last used."""
        self._new_topics: set[str] = set()
        self._filter: TopicFilter | None = None
        """Chooses among all topics of the cluster, where there is no list of them (a consumer's pattern)."""
        self._need_full_update = True
        self._need_partial_update = False
        self._request_version = 0
        """Rises when topics are added while a request is in progress, so that its answer doesn't count for them."""
        self._update_version = 0
        self._last_refresh_ms = -FOREVER_MS
        self._last_successful_refresh_ms = -FOREVER_MS
        self._attempts = 0
        self._fatal_error: Exception | None = None
        self._closed = False
        self._cluster_listeners: list[Callable[[str | None], None]] = []

    # -- asking for updates: any thread ------------------------------------------------------------------------------

    def add_topic(self, topic: str, now_ms: int) -> int:
        """A topic is used: keep it, and fetch it if it is new. Returns the version an update must exceed."""
        with self._condition:
            if topic not in self._topics:
                self._new_topics.add(topic)
                self._need_partial_update = True
                self._request_version += 1
                self._last_refresh_ms = -FOREVER_MS
            self._topics[topic] = now_ms
            return self._update_version

    def follow(self, topics: Iterable[str], now_ms: int, topic_filter: TopicFilter | None = None) -> None:
        """From now on, exactly these topics are of interest; with a filter, all of the cluster that it lets pass too.

        What is new is fetched: partially if it can be, fully with a filter (Kafka: requestUpdateForNewTopics).
        """
        with self._condition:
            wanted = dict.fromkeys(topics, now_ms)
            new = wanted.keys() - self._topics.keys()
            if topic_filter is not None and topic_filter == self._filter:
                new -= self.cluster.topics.keys()  # found by the filter, and known
            self._topics = wanted
            self._new_topics = (self._new_topics & wanted.keys()) | new
            if topic_filter is not None and topic_filter != self._filter:
                self._need_full_update = True
            self._filter = topic_filter
            if new:
                self._need_partial_update = True
                self._request_version += 1
                self._last_refresh_ms = -FOREVER_MS

    def request_update(self) -> int:
        """Ask for a full update. Returns the version it must exceed."""
        with self._condition:
            self._need_full_update = True
            return self._update_version

    def request_update_for_topic(self, topic: str) -> int:
        """Ask for an update with this topic: partial if the topic is new, else full."""
        with self._condition:
            if topic in self._new_topics:
                self._need_partial_update = True
                self._request_version += 1
                self._last_refresh_ms = -FOREVER_MS
            else:
                self._need_full_update = True
            return self._update_version

    def await_update(self, last_version: int, timeout_ms: float) -> None:
        """Wait until the version exceeds `last_version`. Raises ClientTimeout, ClientClosed, or the fatal error."""
        with self._condition:
            changed = self._condition.wait_for(
                lambda: self._update_version > last_version or self._closed or self._fatal_error is not None,
                timeout_ms / 1000,
            )
            if self._fatal_error is not None:
                error, self._fatal_error = self._fatal_error, None
                raise error
            if self._closed:
                raise ClientClosed("Requested metadata update after close")
            if not changed:
                raise ClientTimeout(f"Failed to update metadata after {timeout_ms:.0f} ms.")

    def raise_topic_error(self, topic: str) -> None:
        """Raise ApiError if the topic's name is invalid or it may not be described."""
        error = self.cluster.topic_errors.get(topic)
        if error in _TOPIC_ERRORS_TO_RAISE:
            raise ApiError(error, f"{error.message} Topic: {topic}")

    def add_cluster_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call `listener(cluster id)` after each update, on the sending thread (Kafka: ClusterResourceListener)."""
        with self._condition:
            self._cluster_listeners.append(listener)

    def close(self) -> None:
        """Wake everybody who waits."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    # -- updating: the sending thread --------------------------------------------------------------------------------

    @property
    def update_version(self) -> int:
        """Rises with each update."""
        return self._update_version

    def update_requested(self) -> bool:
        """Whether a full or a partial update has been asked for."""
        with self._condition:
            return self._need_full_update or self._need_partial_update

    def time_to_next_update_ms(self, now_ms: int) -> int:
        """Milliseconds until an update is due: at once if asked for, but not before the wait after a failure."""
        with self._condition:
            if self._need_full_update or self._need_partial_update:
                to_expire = 0
            else:
                to_expire = max(self._last_successful_refresh_ms + self._config.max_age_ms - now_ms, 0)
            return max(to_expire, self._time_to_allow_update_ms(now_ms))

    def _time_to_allow_update_ms(self, now_ms: int) -> int:
        wait_ms = self._backoff.after(max(self._attempts - 1, 0))
        return max(self._last_refresh_ms + wait_ms - now_ms, 0)

    def new_request(self, now_ms: int) -> tuple[MetadataRequest, int, bool]:
        """The request for what is needed, the version it is for, and whether it is partial."""
        with self._condition:
            expired = not self._need_full_update and (
                self._last_successful_refresh_ms + self._config.max_age_ms <= now_ms
            )
            is_partial = not self._need_full_update and not expired and bool(self._new_topics)
            wanted = self._new_topics if is_partial else self._live_topics(now_ms)
            named = [MetadataRequest.MetadataRequestTopic(topic_id=ZERO_UUID, name=topic) for topic in sorted(wanted)]
            request = MetadataRequest(
                topics=named if is_partial or self._filter is None else None,
                allow_auto_topic_creation=self._config.allow_auto_topic_creation,
            )
            return request, self._request_version, is_partial

    def _live_topics(self, now_ms: int) -> list[str]:
        idle_ms = self._config.topic_idle_ms
        if idle_ms is not None:
            for topic in [name for name, used_ms in self._topics.items() if now_ms - used_ms >= idle_ms]:
                if topic not in self._new_topics:
                    del self._topics[topic]
        return list(self._topics)

    def update(self, request_version: int, response: MetadataResponse, is_partial: bool, now_ms: int) -> None:
        """Take an answer in and wake those who wait."""
        with self._condition:
            self._need_partial_update = request_version < self._request_version
            self._last_refresh_ms = now_ms
            self._attempts = 0
            if not is_partial:
                self._need_full_update = False
                self._last_successful_refresh_ms = now_ms
            self.cluster = self._merged(response, is_partial)
            self._new_topics.difference_update(topic.name for topic in response.topics if topic.name is not None)
            self._update_version += 1
            listeners = list(self._cluster_listeners)
            self._condition.notify_all()
        for listener in listeners:
            listener(self.cluster.cluster_id)

    def _merged(self, response: MetadataResponse, is_partial: bool) -> Cluster:
        old = self.cluster
        topics: dict[str, Sequence[PartitionInfo]] = {}
        topic_ids: dict[str, bytes] = {}
        errors: dict[str, ErrorCode] = {}
        if is_partial:
            topics.update(old.topics)
            topic_ids.update(old.topic_ids)
            errors.update(old.topic_errors)
        for topic in response.topics:
            name = topic.name
            if name is None or not self._is_of_interest(name, topic.is_internal):
                continue
            errors.pop(name, None)
            error = error_of(topic.error_code)
            if error is ErrorCode.NONE:
                same_topic = old.topic_ids.get(name, topic.topic_id) == topic.topic_id
                known = {info.partition: info for info in old.topics.get(name, ())} if same_topic else {}
                topics[name] = [self._newest(name, partition, known) for partition in topic.partitions]
                topic_ids[name] = topic.topic_id
            else:
                # Known partitions stay: a broker that is starting does not know everything yet.
                if name in old.topics and error in INVALID_METADATA_ERRORS and name not in topics:
                    topics[name] = old.topics[name]
                errors[name] = error
                if error in INVALID_METADATA_ERRORS:
                    logger.debug("Requesting metadata update for topic %s due to error %s", name, error.name)
                    self._need_full_update = True
        return Cluster(
            [Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers],
            topics,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            topic_ids=topic_ids,
            topic_errors=errors,
        )

    def _is_of_interest(self, name: str, is_internal: bool) -> bool:
        return name in self._topics or (self._filter is not None and self._filter(name, is_internal))

    def _newest(
        self,
        topic: str,
        partition: MetadataResponse.MetadataResponsePartition,
        known: dict[int, PartitionInfo],
    ) -> PartitionInfo:
        old = known.get(partition.partition_index)
        epoch = partition.leader_epoch
        if old is not None and 0 <= epoch < old.leader_epoch:
            return old
        if error_of(partition.error_code) in INVALID_METADATA_ERRORS:
            self._need_full_update = True
        return PartitionInfo(
            topic,
            partition.partition_index,
            partition.leader_id,
            epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )

    def failed_update(self, now_ms: int) -> None:
        """A request got no usable answer: wait before the next one."""
        with self._condition:
            self._last_refresh_ms = now_ms
            self._attempts += 1

    def fatal_error(self, error: Exception) -> None:
        """Metadata cannot be had, for a reason that waiting doesn't cure: raise it in who waits."""
        with self._condition:
            self._fatal_error = error
            self._condition.notify_all()

    def rebootstrap(self) -> None:
        """Begin again with the bootstrap addresses: no known node can be reached (KIP-899)."""
        with self._condition:
            self.cluster = Cluster(self._bootstrap, is_bootstrap=True)
            self._need_full_update = True
