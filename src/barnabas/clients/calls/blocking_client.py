"""Requests for callers that wait for the answer: the base of consumer, raw fetcher and admin client.

Owned by the thread that uses it; several threads need a lock around it. The connections belong to one process: a
forked child (Spark forks its Python workers) makes new ones at its first call, and never touches its parent's.
Kafka: ConsumerNetworkClient.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from barnabas.clients.errors import INVALID_METADATA_ERRORS, ClientClosed, ClientTimeout, Disconnected
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig, bootstrap_nodes
from barnabas.clients.metadata.metadata_updater import ClusterMetadataUpdater
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.client_selector import SelectorFactory
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import MetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.transport.host_addresses import host_addresses
from barnabas.transport.selector import Selector

if TYPE_CHECKING:
    from barnabas.clients.client_metrics import MetricName
    from barnabas.clients.telemetry.client_telemetry import ClientTelemetry

RETRY_MS = 100
"""The pause between the attempts of one call."""

_LONGEST_POLL_MS = 1_000


class BlockingClient:
    """Connections to the cluster, one a node, with one request of `call` at a time. Times are milliseconds.

    `make_selector` makes the connections, `resolve(host, port)` gives a host's addresses (tests script both).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: NetworkClientConfig,
        metadata_config: MetadataConfig,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        make_selector: SelectorFactory = Selector,
        resolve: Callable[[str, int], Iterable[str]] = host_addresses,
    ) -> None:
        self._bootstrap = bootstrap_nodes(bootstrap_servers, metadata_config.client_dns_lookup)
        self._config = config
        self._metadata_config = metadata_config
        self.clock = clock if clock is not None else SystemClock()
        self.random = random if random is not None else Random()
        self._make_selector = make_selector
        self._resolve = resolve
        self._closed = False
        self._connect()

    def _connect(self) -> None:
        self._process_id = os.getpid()
        self.metadata = ClusterMetadata(self._bootstrap, self._metadata_config, self.random)
        updater = ClusterMetadataUpdater(
            self.metadata,
            request_timeout_ms=self._config.request_timeout_ms,
            reconnect_backoff_ms=self._config.reconnect_backoff_ms,
        )
        self.network = self.make_network(updater)
        self.telemetry: ClientTelemetry | None = None

    def make_network(self, updater: MetadataUpdater) -> NetworkClient:
        """Return a new network client with the same settings, for another thread to own."""
        selector = self._make_selector(self.clock, max_idle_ms=self._config.connections_max_idle_ms)
        return NetworkClient(selector, updater, self._config, self.clock, self.random, resolve=self._resolve)

    def check_usable(self) -> bool:
        """Return True in a forked child, which now has connections of its own. Raises ClientClosed after `close`."""
        if self._closed:
            raise ClientClosed("This client has already been closed.")
        if os.getpid() == self._process_id:
            return False
        self._connect()
        return True

    def now_ms(self) -> int:
        """Return the monotonic time in milliseconds."""
        return self.network.now_ms()

    def poll(self, timeout_ms: float) -> None:
        """Let the network run for at most `timeout_ms`.

        Raises AuthenticationError when a broker and this client do not trust each other, Unreachable after
        `bootstrap_timeout_ms`.
        """
        now_ms = self.now_ms()
        if self.telemetry is not None:
            timeout_ms = min(timeout_ms, self.telemetry.turn(now_ms))
        self.network.poll(int(min(max(timeout_ms, 0), _LONGEST_POLL_MS)), now_ms)
        if self.telemetry is not None:
            # Also here: before a poll, a node may have a fetch that is not written yet, and takes no further request.
            self.telemetry.turn(self.now_ms())
        self.metadata.raise_failure()

    def start_telemetry(
        self, measure: Callable[[], Mapping[MetricName, float]], labels: Callable[[], Mapping[str, str]]
    ) -> None:
        """Push what `measure` returns to brokers that ask for it, in the polls of this client; `labels` name it."""
        # Imported when used: only consumers push metrics, unless their settings say otherwise.
        from barnabas.clients.telemetry.client_telemetry import ClientTelemetry  # noqa: PLC0415

        self.telemetry = ClientTelemetry(self.network, measure, labels, self.clock, self.random)

    def close(self, last_push_ms: int = 0) -> None:
        """Close the connections. Idempotent. `last_push_ms`: how long the last push of telemetry may take."""
        if not self._closed:
            self._closed = True
            # A forked child that made no call of its own closes nothing: the connections are its parent's.
            if os.getpid() == self._process_id:
                try:
                    self._push_last(last_push_ms)
                finally:
                    self.network.close()

    def _push_last(self, timeout_ms: int) -> None:
        if self.telemetry is None:
            return
        self.telemetry.begin_close(timeout_ms)
        while self.telemetry.must_go_on():
            now_ms = self.now_ms()
            self.network.poll(self.telemetry.turn(now_ms), now_ms)

    # -- requests

    def call(
        self,
        message: Message,
        *,
        to: Callable[[Cluster], Node | None] | None = None,
        versions: tuple[int, int] | None = None,
        deadline_ms: int,
        may_have_moved: bool = False,
    ) -> Message:
        """Send a request and return its answer. `to` chooses the node; None takes the least loaded one.

        A connection that is lost or refused is retried until the deadline; not with `may_have_moved`, where the caller
        has to find out which node to ask now. Raises ClientTimeout (Unreachable, if no broker was ever reached),
        Disconnected, UnsupportedVersion, ClientClosed.
        """
        self.check_usable()
        problem: Exception | None = None
        # Each turn chooses again: the controller or leader may be another node after an update of the metadata.
        while True:
            node = self._choose(to)
            now_ms = self.now_ms()
            if node is not None and self.network.ready(node, now_ms):
                response = self._exchange(node, message, versions, deadline_ms)
                if response is not None and response.version_error is not None:
                    raise response.version_error
                if response is not None and response.body is not None:
                    return response.body
                problem = Disconnected(f"Lost the connection to {node}")
            elif node is None and to is not None:
                self.metadata.request_update()
            elif may_have_moved and node is not None and self.network.connection_failed(node, now_ms):
                problem = Disconnected(f"Cannot connect to {node}: {self.network.connection_failure(node)}")
            if problem is not None and may_have_moved:
                raise problem
            left_ms = deadline_ms - self.now_ms()
            if left_ms <= 0:
                raise problem or self.metadata.timeout(
                    f"Timed out waiting for {'a broker' if node is None else node} to take the request"
                    f" ({type(message).__name__})"
                )
            if problem is None or node is None or not self.network.is_ready(node, self.now_ms()):
                self.poll(min(left_ms, self._config.reconnect_backoff_ms))

    def _choose(self, to: Callable[[Cluster], Node | None] | None) -> Node | None:
        if to is None:
            return self.network.least_loaded_node(self.now_ms())
        return to(self.metadata.cluster)

    def _exchange(
        self, node: Node, message: Message, versions: tuple[int, int] | None, deadline_ms: int
    ) -> ClientResponse | None:
        """Send the request and return its response. At the deadline, drop the connection. Raises ClientTimeout."""
        answers: list[ClientResponse] = []
        request = self.network.new_request(node.id, message, versions=versions, callback=answers.append)
        self.network.send(request, self.now_ms())
        while not answers:
            left_ms = deadline_ms - self.now_ms()
            if left_ms <= 0:
                # Brokers answer in order, so later requests on this connection would wait for the missing answer too.
                self.network.disconnect(node.id)
                self.poll(0)
                raise ClientTimeout(f"{node} did not answer the request ({type(message).__name__}) in time")
            self.poll(left_ms)
        # Taken out: request, callback, list and answer would be a cycle that keeps the answer until a collection.
        return answers.pop()

    def call_node(
        self, node: Node, message: Message, *, versions: tuple[int, int] | None = None, deadline_ms: int
    ) -> Message:
        """Send a request to the node at this address and return its answer, as `call` does with `may_have_moved`.

        Raises Disconnected at once when the connection is lost or refused, and what `call` raises.
        """
        return self.call(message, to=lambda _: node, versions=versions, deadline_ms=deadline_ms, may_have_moved=True)

    def call_broker(
        self, broker_id: int, message: Message, *, versions: tuple[int, int] | None = None, deadline_ms: int
    ) -> Message:
        """Send a request to the broker of this id and return its answer. A lost or refused connection is retried.

        Retries end at the deadline, and after `bootstrap_timeout_ms` if that is set. Raises ApiError:
        BROKER_ID_NOT_REGISTERED as soon as the cluster has no such broker; Disconnected when the broker cannot be
        reached; ClientTimeout, UnsupportedVersion, ClientClosed.
        """
        self.check_usable()
        timeout_ms = self._metadata_config.bootstrap_timeout_ms
        last_attempt_ms = deadline_ms if timeout_ms is None else min(deadline_ms, self.now_ms() + timeout_ms)
        while True:
            # Looked up for each attempt: the broker may come back at another address, or the cluster may drop it.
            node = self._await_broker(broker_id, deadline_ms)
            try:
                return self.call_node(node, message, versions=versions, deadline_ms=deadline_ms)
            except Disconnected:
                if self.now_ms() >= last_attempt_ms:
                    raise
                self.pause_for_metadata(deadline_ms)

    def pause_for_metadata(self, deadline_ms: int) -> None:
        """Request an update of the metadata, and let the network run for the pause before a call's next attempt.

        Without the pause, a cluster that is still electing a leader would be asked in a busy loop.
        """
        self.metadata.request_update()
        until_ms = min(self.now_ms() + RETRY_MS, deadline_ms)
        # A poll returns early, for an answer of the metadata, for example.
        while (left_ms := until_ms - self.now_ms()) > 0:
            self.poll(left_ms)

    # -- metadata

    def await_nodes(self, deadline_ms: int) -> tuple[Node, ...]:
        """Return the brokers that the cluster has now, in order. Raises ClientTimeout."""
        first_version = self.metadata.update_version
        while self.metadata.update_version == first_version or self.metadata.cluster.is_bootstrap:
            if self.now_ms() >= deadline_ms:
                raise self.metadata.timeout("No metadata in time to find the brokers")
            self.pause_for_metadata(deadline_ms)
        return tuple(node for _, node in sorted(self.metadata.cluster.nodes.items()))

    def _await_broker(self, broker_id: int, deadline_ms: int) -> Node:
        """Return the address of a broker. Raises ApiError when a new snapshot is without it, ClientTimeout."""
        known = self.metadata.cluster.nodes.get(broker_id)
        if known is not None:
            return known
        nodes = {node.id: node for node in self.await_nodes(deadline_ms)}
        if broker_id not in nodes:
            error = ErrorCode.BROKER_ID_NOT_REGISTERED
            text = f"There is no broker {broker_id}; the brokers of the cluster are {', '.join(map(str, nodes))}."
            raise ApiError(error, text)
        return nodes[broker_id]

    def await_topics(self, topics: Iterable[str], deadline_ms: int) -> Cluster:
        """Return a snapshot with all these topics. Raises ClientTimeout, ApiError for a topic with an error."""
        wanted = list(topics)
        for topic in wanted:
            self.metadata.add_topic(topic, self.now_ms())
        return self._await_cluster(
            lambda cluster: all(topic in cluster.topics for topic in wanted),
            lambda cluster: [_topic_error(cluster, topic) for topic in wanted],
            wanted,
            deadline_ms,
        )

    def await_leader(self, topic_partition: TopicPartition, deadline_ms: int, *, unknown_ms: int | None = None) -> Node:
        """Return the leader of a partition. Raises ClientTimeout, ApiError for a topic with an error.

        unknown_ms: how long the cluster may not know the topic or the partition before ApiError is raised, at the
        deadline at the latest. None: an unknown topic has until the deadline, an unknown partition times out.
        """
        now_ms = self.now_ms()
        self.metadata.add_topic(topic_partition.topic, now_ms)
        cluster = self._await_cluster(
            lambda cluster: cluster.leader(topic_partition) is not None,
            lambda cluster: [
                _topic_error(cluster, topic_partition.topic),
                _partition_error(cluster, topic_partition) if unknown_ms is not None else None,
            ],
            [topic_partition.topic],
            deadline_ms,
            known_by_ms=deadline_ms if unknown_ms is None else min(deadline_ms, now_ms + unknown_ms),
        )
        leader = cluster.leader(topic_partition)
        assert leader is not None
        return leader

    def _await_cluster(
        self,
        fits: Callable[[Cluster], bool],
        errors_in: Callable[[Cluster], Iterable[ApiError | None]],
        topics: Sequence[str],
        deadline_ms: int,
        *,
        known_by_ms: int | None = None,
    ) -> Cluster:
        """Wait for a snapshot that `fits`. Raises ClientTimeout, and ApiError for an error in the snapshot.

        errors_in(cluster): the errors of the wanted topics. After `known_by_ms` it no longer helps to wait for one that
        the brokers do not know.
        """
        asked = False
        first_version = self.metadata.update_version
        while True:
            cluster = self.metadata.cluster
            if fits(cluster):
                return cluster
            now_ms = self.now_ms()
            # The snapshot of an earlier call does not say that the brokers do not know a topic now.
            is_answered = self.metadata.update_version > first_version
            waited_for_unknown = known_by_ms is not None and is_answered and now_ms >= known_by_ms
            for error in errors_in(cluster):
                # A topic may be in creation: its error counts only if waiting does not help, or the wait is over.
                if error is not None and (
                    error.code not in INVALID_METADATA_ERRORS
                    or now_ms >= deadline_ms
                    or (waited_for_unknown and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                ):
                    raise error
            if now_ms >= deadline_ms:
                raise self.metadata.timeout(f"No metadata in time for topics {', '.join(topics)}")
            if not asked or not self.metadata.update_requested():
                self.metadata.request_update()
                asked = True
            self.poll(deadline_ms - now_ms)


def _topic_error(cluster: Cluster, topic: str) -> ApiError | None:
    error = cluster.topic_errors.get(topic, ErrorCode.NONE)
    return ApiError(error, f"{error.message} Topic: {topic}") if error else None


def _partition_error(cluster: Cluster, topic_partition: TopicPartition) -> ApiError | None:
    topic, partition = topic_partition
    count = cluster.partition_count(topic)
    if count is None or partition < count:
        return None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ApiError(error, f"Topic {topic} has {count} partitions, from 0 on: there is no partition {partition}.")
