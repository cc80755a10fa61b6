"""A client's view of its cluster, from the bootstrap addresses on, and the requests that renew it by a schedule.

Shared by the threads that use a client and the thread that sends. `cluster` is an immutable snapshot, read without a
lock; one condition guards everything else and is notified after each update.

An update is full (all topics of interest; it replaces the snapshot) or partial (only topics that are new since the last
request; it is merged into the snapshot). At most one request is in progress. A disconnect asks for a full update,
because the leaders of the lost broker may have moved.

Kafka: Metadata, ProducerMetadata, ClientUtils.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeAlias

from barnabas.clients.authentication_errors import AuthenticationError
from barnabas.clients.errors import ClientClosed, ClientTimeout, Unreachable
from barnabas.clients.metadata.cluster import Cluster, LeaderHints, TopicFilter, TopicsOfInterest, merge, merge_leaders
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.connection_states import ExponentialBackoff, Node
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.transport.host_addresses import UnknownHost, canonical_host_names

logger = logging.getLogger(__name__)

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"

REBOOTSTRAP = "rebootstrap"
"""The recovery strategy by which a view begins again with the user's addresses."""

ClusterListener: TypeAlias = Callable[[Cluster], None]
"""A user's function, which is called with each new snapshot."""

_TOPIC_ERRORS_TO_RAISE = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


@dataclass(frozen=True)
class MetadataConfig:
    """The settings of the view, in milliseconds, named like Kafka's. Without `topic_idle_ms`, no topic is dropped."""

    max_age_ms: int = 300_000
    topic_idle_ms: int | None = None
    refresh_backoff_ms: int = 100
    refresh_backoff_max_ms: int = 1_000
    allow_auto_topic_creation: bool = True
    bootstrap_timeout_ms: int | None = None
    client_dns_lookup: str = USE_ALL_DNS_IPS
    """How the bootstrap addresses become nodes: see `bootstrap_nodes`."""
    recovery_strategy: str = REBOOTSTRAP
    """What happens when no known node can be reached: REBOOTSTRAP or "none"."""
    rebootstrap_trigger_ms: int = 300_000


class UpdateRequest(NamedTuple):
    """A request for metadata. `version` and `is_partial` go back to `update` with the answer."""

    message: MetadataRequest
    version: int
    is_partial: bool


class _UpdateSchedule:
    """The due time of the next update; a view expires after `max_age_ms`.

    Times are monotonic milliseconds, and passed in.
    """

    def __init__(self, max_age_ms: int, backoff: ExponentialBackoff) -> None:
        self.needs_full = True
        self.needs_partial = False
        self.version = 0
        """A number that rises with each request for new topics: the answer to an older request has none of them."""
        self._max_age_ms = max_age_ms
        self._backoff = backoff
        self._last_refresh_ms = -FOREVER_MS
        self._last_success_ms = -FOREVER_MS
        self._attempts = 0

    @property
    def is_requested(self) -> bool:
        """Whether a full or a partial update was requested."""
        return self.needs_full or self.needs_partial

    def request_partial(self) -> None:
        """Request an update with the new topics, without waiting for the backoff."""
        self.needs_partial = True
        self.version += 1
        self._last_refresh_ms = -FOREVER_MS

    def age_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds since the last full answer, None before the first one."""
        return None if self._last_success_ms < 0 else now_ms - self._last_success_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the view is too old."""
        return self._last_success_ms + self._max_age_ms <= now_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until an update is due: 0 if one was requested, but never less than the backoff."""
        to_expire_ms = 0 if self.is_requested else max(self._last_success_ms + self._max_age_ms - now_ms, 0)
        # The backoff also holds for requested updates, or a cluster that does not answer would be asked in a busy loop.
        # Only new topics skip it, by `request_partial`: their users wait.
        backoff_ms = self._backoff.after(max(self._attempts - 1, 0))
        return max(to_expire_ms, self._last_refresh_ms + backoff_ms - now_ms, 0)

    def succeeded(self, version: int, now_ms: int, *, is_partial: bool) -> None:
        """Note an answer to the request of that `version`."""
        self.needs_partial = version < self.version
        self._last_refresh_ms = now_ms
        self._attempts = 0
        if not is_partial:
            self.needs_full = False
            self._last_success_ms = now_ms

    def failed(self, now_ms: int) -> None:
        """Note that a request got no usable answer: the next one waits for the backoff."""
        self._last_refresh_ms = now_ms
        self._attempts += 1


class ClusterMetadata:
    """The snapshot `cluster`, the topics that it should cover, and its updates. Times are monotonic milliseconds."""

    def __init__(self, bootstrap: Sequence[Node], config: MetadataConfig, random: Random | None = None) -> None:
        self._bootstrap = tuple(bootstrap)
        self.config = config
        self._condition = threading.Condition()
        self.cluster = Cluster(self._bootstrap, is_bootstrap=True)
        self._topics = TopicsOfInterest(config.topic_idle_ms)
        self._schedule = _UpdateSchedule(
            config.max_age_ms, ExponentialBackoff(config.refresh_backoff_ms, config.refresh_backoff_max_ms, random)
        )
        self._bootstrap_failures = BootstrapFailures(self._bootstrap, config.bootstrap_timeout_ms)
        self._update_version = 0
        self._listeners: tuple[ClusterListener, ...] = ()
        self._fatal_error: Exception | None = None
        self._closed = False
        self._last_failure: str | None = None
        """The address of the node whose connection failed last, and why; None since the last update."""

    # -- asking for updates: any thread

    def add_topic(self, topic: str, now_ms: int) -> int:
        """Keep a topic that is used, and request it if it is new. Returns the version that an update must exceed."""
        with self._condition:
            if self._topics.use(topic, now_ms):
                self._schedule.request_partial()
            return self._update_version

    def follow(self, topics: Iterable[str], now_ms: int, topic_filter: TopicFilter | None = None) -> None:
        """Keep exactly these topics from now on; with a filter, also all topics of the cluster that it lets pass.

        New topics are requested: by a partial update if possible, by a full one for a new filter.
        """
        with self._condition:
            is_new_filter = topic_filter is not None and topic_filter != self._topics.filter
            has_new_topics = self._topics.replace(topics, self.cluster.topics, now_ms, topic_filter)
            if is_new_filter:
                self._schedule.needs_full = True
            if has_new_topics:
                self._schedule.request_partial()

    def request_update(self) -> int:
        """Request a full update. Returns the version that the update must exceed."""
        with self._condition:
            self._schedule.needs_full = True
            return self._update_version

    def request_update_for_topic(self, topic: str) -> int:
        """Request an update with this topic: partial if the topic is new, else full. Returns the version to exceed."""
        with self._condition:
            if topic in self._topics.new:
                self._schedule.request_partial()
            else:
                self._schedule.needs_full = True
            return self._update_version

    def await_update(self, last_version: int, timeout_ms: float) -> None:
        """Wait until the version exceeds `last_version`.

        Raises ClientTimeout after `timeout_ms`, ClientClosed when the client is closed, and the error of `fail`.
        """
        with self._condition:
            changed = self._condition.wait_for(
                lambda: self._update_version > last_version or self._closed or self._fatal_error is not None,
                timeout_ms / 1000,
            )
            if self._fatal_error is not None:
                # Cleared before it is raised: the application may go on, and its next wait must not fail with an old
                # error.
                error, self._fatal_error = self._fatal_error, None
                raise error
            if self._closed:
                raise ClientClosed("Requested metadata update after close")
            if not changed:
                raise self.timeout(f"Failed to update metadata after {timeout_ms:.0f} ms.")

    def raise_topic_error(self, topic: str) -> None:
        """Check the topic's error. Raises ApiError for an invalid name, and for a topic the client may not describe."""
        error = self.cluster.topic_errors.get(topic)
        if error in _TOPIC_ERRORS_TO_RAISE:
            raise ApiError(error, f"{error.message} Topic: {topic}")

    def raise_failure(self) -> None:
        """Check the connections. Raises AuthenticationError once for each failure, and as `raise_unreachable` does."""
        # Without the lock first: this runs in every poll of a consumer.
        if isinstance(self._fatal_error, AuthenticationError):
            with self._condition:
                error, self._fatal_error = self._fatal_error, None
            if error is not None:
                raise error
        self.raise_unreachable()

    def raise_unreachable(self) -> None:
        """Check the bootstrap brokers. Raises Unreachable if none could be reached for `bootstrap_timeout_ms`."""
        # Read without the lock: the flag only ever turns true, and the version only ever rises.
        if self._bootstrap_failures.is_final and self._update_version == 0:
            raise self._bootstrap_failures.error()

    def timeout(self, text: str) -> ClientTimeout:
        """Return the error for a wait that timed out: Unreachable if no broker was ever reached, else ClientTimeout."""
        if self._update_version == 0 and self._bootstrap_failures:
            return self._bootstrap_failures.error()
        return ClientTimeout(self.with_last_failure(text))

    def with_last_failure(self, text: str) -> str:
        """Return the text with the last failure of a connection since the last update, if there was one."""
        failure = self._last_failure
        return text if failure is None else f"{text.removesuffix('.')}; the last failure: {failure}"

    def age_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds since the last full update, None before the first one."""
        with self._condition:
            return self._schedule.age_ms(now_ms)

    def close(self) -> None:
        """Fail the threads that wait for an update with ClientClosed."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def add_listener(self, listener: ClusterListener) -> None:
        """Call a function with the snapshot after each update, on the sending thread. Its errors are logged."""
        with self._condition:
            self._listeners += (listener,)

    # -- updating: the sending thread

    @property
    def update_version(self) -> int:
        """A number that rises with each update."""
        return self._update_version

    def update_requested(self) -> bool:
        """Return whether a full or a partial update was requested."""
        with self._condition:
            return self._schedule.is_requested

    def time_to_next_update_ms(self, now_ms: int) -> int:
        """Return the milliseconds until an update is due."""
        with self._condition:
            return self._schedule.wait_ms(now_ms)

    def new_request(self, now_ms: int) -> UpdateRequest:
        """Return a request for the topics that are needed now."""
        with self._condition:
            schedule = self._schedule
            is_partial = not schedule.needs_full and not schedule.is_expired(now_ms) and bool(self._topics.new)
            wanted = self._topics.new if is_partial else self._topics.drop_idle(now_ms)
            named = [MetadataRequest.MetadataRequestTopic(topic_id=ZERO_UUID, name=topic) for topic in sorted(wanted)]
            message = MetadataRequest(
                # None asks for all topics, which a filter has to choose from.
                topics=named if is_partial or self._topics.filter is None else None,
                allow_auto_topic_creation=self.config.allow_auto_topic_creation,
            )
            return UpdateRequest(message, schedule.version, is_partial)

    def update(self, request_version: int, response: MetadataResponse, is_partial: bool, now_ms: int) -> None:
        """Take an answer into the snapshot, wake all threads that wait, and call the listeners."""
        with self._condition:
            # In this order: the answer itself may show that another full update is needed.
            self._schedule.succeeded(request_version, now_ms, is_partial=is_partial)
            self.cluster, needs_full_update = merge(
                self.cluster, response, is_partial=is_partial, is_followed=self._topics.is_followed
            )
            if needs_full_update:
                self._schedule.needs_full = True
            self._topics.new.difference_update(topic.name for topic in response.topics if topic.name is not None)
            self._update_version += 1
            self._last_failure = None
            self._condition.notify_all()
        # Without the condition: a listener may use the client.
        for listener in self._listeners:
            try:
                listener(self.cluster)
            except Exception:
                logger.exception("Error executing cluster listener %r", listener)

    def update_leaders(self, hints: LeaderHints) -> frozenset[TopicPartition]:
        """Take over the newer leaders that an answer names (KIP-951). Return the partitions whose leader is new.

        No update is counted, since the description of the topics is as old as before.
        """
        if not hints:
            return frozenset()
        with self._condition:
            self.cluster, changed = merge_leaders(self.cluster, hints)
        if changed:
            logger.debug("Leaders of %s are known from an answer", ", ".join(map(str, sorted(changed))))
        return changed

    def failed_update(self, now_ms: int) -> None:
        """Note that a request got no usable answer: the next one waits for the backoff."""
        with self._condition:
            self._schedule.failed(now_ms)

    def connection_failed(self, node: Node, reason: str) -> None:
        """Note why the connection to a node was lost, or could not be made, for the errors of waits that time out."""
        self._last_failure = f"{node.host}:{node.port}: {reason}"

    def bootstrap_failed(self, node: Node, reason: str, now_ms: int) -> None:
        """Note the reason why a bootstrap broker cannot be reached. After the first update, do nothing."""
        if self._update_version:
            return
        with self._condition:
            self._bootstrap_failures.note(node, reason, now_ms)
            if self._bootstrap_failures.is_final:
                self._fatal_error = self._bootstrap_failures.error()
                self._condition.notify_all()

    def fail(self, error: Exception) -> None:
        """Raise this error in the thread that waits, because no retry can bring metadata."""
        with self._condition:
            self._fatal_error = error
            self._condition.notify_all()

    def rebootstrap(self) -> None:
        """Begin again with the bootstrap addresses, because the known nodes are of no use (KIP-899, KIP-1102)."""
        with self._condition:
            self.cluster = Cluster(self._bootstrap, is_bootstrap=True)
            self._schedule.needs_full = True


def bootstrap_nodes(
    servers: str | Sequence[str],
    client_dns_lookup: str = USE_ALL_DNS_IPS,
    *,
    canonical_names: Callable[[str, int], Iterable[str]] = canonical_host_names,
) -> list[Node]:
    """Return nodes for the addresses, with ids that no broker has: -1, -2, and so on.

    With RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY, an address stands for the canonical names of all machines behind it
    (KIP-235), which Kerberos needs; `canonical_names` looks them up, given host and port. Raises ValueError for an
    address without host or port, when there are none, or when no canonical name can be found.
    """
    nodes = _parse(servers)
    if client_dns_lookup != RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY:
        return nodes
    addresses: dict[tuple[str, int], None] = {}
    for node in nodes:
        try:
            addresses.update(((name, node.port), None) for name in canonical_names(node.host, node.port))
        except UnknownHost as error:
            logger.warning("Cannot resolve %s:%d of bootstrap_servers: %s", node.host, node.port, error)
    if not addresses:
        given = ", ".join(f"{node.host}:{node.port}" for node in nodes)
        raise ValueError(f"No resolvable bootstrap urls given in bootstrap_servers: {given}; expected known hosts")
    return [Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses)]


def _parse(servers: str | Sequence[str]) -> list[Node]:
    """Return the nodes at the addresses, with the ids -1, -2 and so on.

    Raises ValueError for an address without host or port, and when there are none.
    """
    addresses = servers.split(",") if isinstance(servers, str) else servers
    nodes: list[Node] = []
    for address in addresses:
        if not address.strip():
            continue
        host, colon, port = address.strip().rpartition(":")
        # Kafka takes addresses with a protocol too, such as PLAINTEXT://host:port, and ignores the protocol.
        host = host.rpartition("//")[2].removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"Invalid url in bootstrap_servers: {address!r}; expected host:port")
        nodes.append(Node(-1 - len(nodes), host, int(port)))
    if not nodes:
        raise ValueError("No bootstrap urls given in bootstrap_servers")
    return nodes


class BootstrapFailures:
    """The last failure to reach each bootstrap broker. Without a `timeout_ms`, the failures are never final."""

    def __init__(self, nodes: Sequence[Node], timeout_ms: int | None) -> None:
        self.is_final = False
        """Whether every broker has failed, and the first failure is longer ago than the timeout."""
        self._node_count = len(nodes)
        self._timeout_ms = timeout_ms
        self._since_ms: int | None = None
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def note(self, node: Node, reason: str, now_ms: int) -> None:
        """Note a failed attempt to reach a broker."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self._reasons[f"{node.host}:{node.port}"] = reason
        if self._timeout_ms is not None and len(self._reasons) == self._node_count:
            self.is_final = now_ms - self._since_ms >= self._timeout_ms

    def error(self) -> Unreachable:
        """Return the error that names every address that was tried."""
        reasons = ", ".join(f"{address}: {reason}" for address, reason in self._reasons.items())
        return Unreachable(f"No broker can be reached ({reasons})")
