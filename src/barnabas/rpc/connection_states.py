"""The state of the connection to each node, when the next attempt is due, and when the client logs in again.

Owned by the NetworkClient's thread; no lock. Times are monotonic milliseconds, passed in.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> READY, and from each of them back to DISCONNECTED
    (or AUTHENTICATION_FAILED). A failed attempt doubles the wait before the next one; being ready resets it.
    READY -> CONNECTING, when the client logs in again on the connection it has.

`Node` and `ExponentialBackoff`, of which the states are made, are for every thread.
Kafka: Node, ExponentialBackoff, ClusterConnectionStates, SaslClientAuthenticator.ReauthInfo,
KafkaChannel.maybeBeginClientReauthentication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from barnabas.transport.channel.authenticator import Authenticator, RenewableAuthenticator

_EARLIEST_RENEWAL_SHARE: Final = 0.85
_RENEWAL_JITTER_SHARE: Final = 0.10


class Node(NamedTuple):
    """Id, address and rack of a broker. The ids of bootstrap addresses, which are unknown yet, count down from -1."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"


JITTER: Final = 0.2
# By then every int32 maximum is reached; more attempts would only shift an ever longer integer.
_MOST_DOUBLINGS: Final = 31


class ExponentialBackoff:
    """The wait before the next attempt (KIP-144, KIP-580), here and in clients.

    `initial * 2^attempts`, at most `maximum`, plus or minus 20 %, so that peers do not all retry at the same time.

    All times are milliseconds. `random` None means no jitter.
    """

    __slots__ = ("_initial", "_maximum", "_random")

    def __init__(self, initial_ms: int, maximum_ms: int, random: Random | None) -> None:
        self._initial = min(initial_ms, maximum_ms)
        self._maximum = maximum_ms
        self._random = random

    def after(self, attempts: int) -> int:
        """Return the milliseconds to wait after so many failed attempts, counted from 0."""
        # A constant backoff has no jitter, as in Kafka.
        if self._maximum <= self._initial:
            return self._initial
        term = min(self._initial << min(attempts, _MOST_DOUBLINGS), self._maximum)
        jitter = 1.0 if self._random is None else self._random.uniform(1 - JITTER, 1 + JITTER)
        return min(int(term * jitter), self._maximum)


class ConnectionState(Enum):
    """The state of the connection to one node."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    READY = "ready"
    AUTHENTICATION_FAILED = "authentication failed"

    @property
    def is_disconnected(self) -> bool:
        """Whether there is no connection and none is being made."""
        return self in {ConnectionState.DISCONNECTED, ConnectionState.AUTHENTICATION_FAILED}

    @property
    def is_preparing(self) -> bool:
        """Whether a connection is being made that cannot be used yet."""
        return self in {ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS}


_CONNECTED = frozenset({ConnectionState.READY, ConnectionState.CHECKING_API_VERSIONS})


class _NodeState:
    __slots__ = (
        "addresses",
        "failures",
        "host",
        "last_address",
        "last_attempt_ms",
        "reconnect_backoff_ms",
        "setup_failures",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, host: str = "") -> None:
        self.host = host
        self.addresses: list[str] = []
        """The addresses of the host that were not tried since its name was resolved."""
        self.last_address: str | None = None
        self.state = ConnectionState.DISCONNECTED
        self.last_attempt_ms = 0
        self.failures = 0
        self.reconnect_backoff_ms = 0
        self.setup_failures = 0
        self.setup_timeout_ms = 0
        self.throttled_until_ms = 0


class SaslSession(NamedTuple):
    """The session of one connection. due_ms: when it is renewed, before the next request."""

    node: Node
    authenticator: RenewableAuthenticator
    due_ms: int


class SessionRenewals:
    """The connections whose sessions end, by node id (KIP-368).

    A broker tells how long a session lasts when the client logs in. The client logs in again, on the same connection,
    after 85 to 95 percent of that time: early enough for a slow network, and not all connections at once.
    """

    def __init__(self, random: Random | None) -> None:
        """random: for jitter; None: every session is renewed as early as possible."""
        self._random = random
        self._sessions: dict[int, SaslSession] = {}

    def __bool__(self) -> bool:
        """Return whether any session ends: without SASL, none does."""
        return bool(self._sessions)

    def began(self, node: Node, authenticator: Authenticator | None, now_ms: int) -> None:
        """Note that a connection is ready. authenticator: the connection's; None: it is lost already."""
        if isinstance(authenticator, RenewableAuthenticator) and authenticator.session_lifetime_ms > 0:
            jitter = 0.0 if self._random is None else self._random.random() * _RENEWAL_JITTER_SHARE
            lasts_ms = int(authenticator.session_lifetime_ms * (_EARLIEST_RENEWAL_SHARE + jitter))
            self._sessions[node.id] = SaslSession(node, authenticator, now_ms + lasts_ms)

    def due(self, node_id: int, now_ms: int) -> SaslSession | None:
        """Return the session of a connection that has to log in again before its next request, or None."""
        session = self._sessions.get(node_id)
        return session if session is not None and now_ms >= session.due_ms else None

    def forget(self, node_id: int) -> None:
        """Forget a connection: it is lost, or it logs in again."""
        self._sessions.pop(node_id, None)


class ConnectionStates:
    """States by node id. `reconnect_backoff_ms` and `setup_timeout_ms` are (initial, maximum)."""

    def __init__(
        self,
        reconnect_backoff_ms: tuple[int, int],
        setup_timeout_ms: tuple[int, int],
        random: Random | None,
    ) -> None:
        self._reconnect_backoff = ExponentialBackoff(*reconnect_backoff_ms, random)
        self._setup_timeout = ExponentialBackoff(*setup_timeout_ms, random)
        self._nodes: dict[int, _NodeState] = {}
        self._connecting: set[int] = set()
        self.sessions = SessionRenewals(random)
        """The logins of the connections, which end."""

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Return whether there is no connection, and the wait after the last failure is over."""
        node = self._nodes.get(node_id)
        if node is None:
            return True
        return node.state.is_disconnected and now_ms - node.last_attempt_ms >= node.reconnect_backoff_ms

    def is_blacked_out(self, node_id: int, now_ms: int) -> bool:
        """Return whether the wait after a failure is not over."""
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state.is_disconnected
            and now_ms - node.last_attempt_ms < node.reconnect_backoff_ms
        )

    def connection_delay_ms(self, node_id: int, now_ms: int) -> int | None:
        """Return the milliseconds until the next attempt; None while a connection exists or is being made."""
        node = self._nodes.get(node_id)
        if node is None:
            return 0
        if node.state.is_disconnected:
            return max(node.reconnect_backoff_ms - (now_ms - node.last_attempt_ms), 0)
        return None

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int | None:
        """Return `connection_delay_ms`, or for a throttled node the rest of its throttle time."""
        throttled = self.throttle_delay_ms(node_id, now_ms)
        if self.is_connected(node_id) and throttled > 0:
            return throttled
        return self.connection_delay_ms(node_id, now_ms)

    def connecting(self, node_id: int, host: str, now_ms: int) -> None:
        """Note the beginning of an attempt to connect. Another host than before is a new node, without a past."""
        node = self._nodes.get(node_id)
        if node is None or node.host != host:
            node = self._nodes[node_id] = _NodeState(host)
        node.state = ConnectionState.CONNECTING
        node.last_attempt_ms = now_ms
        node.setup_timeout_ms = self._setup_timeout.after(node.setup_failures)
        self._connecting.add(node_id)
        self.sessions.forget(node_id)

    def next_address(self, node_id: int, resolve: Callable[[], Iterable[str]]) -> str:
        """Return the address for the attempt that begins.

        The addresses that `resolve` returns are used in turn (KIP-302); then it is called again. Raises OSError: the
        name cannot be resolved, or has no address.
        """
        node = self._nodes[node_id]
        if not node.addresses:
            node.addresses.extend(resolve())
            if not node.addresses:
                raise OSError(f"node {node_id} has no address")
            # The machine behind the address of the last attempt may be down: begin with another one, if there is any.
            if len(node.addresses) > 1 and node.addresses[0] == node.last_address:
                del node.addresses[0]
        node.last_address = node.addresses.pop(0)
        return node.last_address

    def checking_api_versions(self, node_id: int) -> None:
        """Note that the node is connected and is asked for its versions."""
        node = self._nodes[node_id]
        node.state = ConnectionState.CHECKING_API_VERSIONS
        # The set-up timeout (KIP-601) ends here. A node that never answers ApiVersions runs into the request timeout
        # instead.
        node.setup_failures = 0
        self._connecting.discard(node_id)

    def ready(self, node_id: int) -> None:
        """Note that the node takes requests, and forget its past failures."""
        node = self._nodes[node_id]
        node.state = ConnectionState.READY
        # Not before ApiVersions is answered: a node that accepts connections only to close them would be tried without
        # a pause.
        node.failures = 0
        node.reconnect_backoff_ms = self._reconnect_backoff.after(0)
        node.setup_failures = 0
        self._connecting.discard(node_id)

    def disconnected(self, node_id: int, now_ms: int, *, authentication_failed: bool = False) -> None:
        """Note that the connection, or the attempt to make it, has failed, and begin the wait for the next one."""
        node = self._nodes.setdefault(node_id, _NodeState())
        node.last_attempt_ms = now_ms
        node.reconnect_backoff_ms = self._reconnect_backoff.after(node.failures)
        node.failures += 1
        node.throttled_until_ms = 0
        if node.state is ConnectionState.CONNECTING:
            node.setup_failures += 1
            self._connecting.discard(node_id)
        elif node.state in _CONNECTED:
            # The name may have other addresses since this connection was made.
            node.addresses.clear()
        self.sessions.forget(node_id)
        failed = ConnectionState.AUTHENTICATION_FAILED
        node.state = failed if authentication_failed else ConnectionState.DISCONNECTED

    def throttle(self, node_id: int, until_ms: int) -> None:
        """Note the throttle time of a node. An earlier one that ends later stands."""
        node = self._nodes.get(node_id)
        if node is not None and node.throttled_until_ms < until_ms:
            node.throttled_until_ms = until_ms

    def throttle_delay_ms(self, node_id: int, now_ms: int) -> int:
        """Return the rest of a node's throttle time in milliseconds."""
        node = self._nodes.get(node_id)
        return max(node.throttled_until_ms - now_ms, 0) if node is not None else 0

    def forget(self, node_id: int) -> None:
        """Forget a node."""
        self._nodes.pop(node_id, None)
        self._connecting.discard(node_id)
        self.sessions.forget(node_id)

    def state(self, node_id: int) -> ConnectionState:
        """Return the state of a node; DISCONNECTED for an unknown one."""
        node = self._nodes.get(node_id)
        return ConnectionState.DISCONNECTED if node is None else node.state

    def is_connected(self, node_id: int) -> bool:
        """Return whether a connection exists, ready or not."""
        return self.state(node_id) in _CONNECTED

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Return whether requests may be sent now."""
        node = self._nodes.get(node_id)
        return node is not None and node.state is ConnectionState.READY and node.throttled_until_ms <= now_ms

    def has_ready_nodes(self, now_ms: int) -> bool:
        """Return whether any node takes requests now."""
        return any(self.is_ready(node_id, now_ms) for node_id in self._nodes)

    def any_preparing(self) -> bool:
        """Return whether any connection is being made."""
        return any(node.state.is_preparing for node in self._nodes.values())

    def last_attempt_ms(self, node_id: int) -> int:
        """Return when the last attempt to connect began or failed; 0 for never."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.last_attempt_ms

    def setup_timed_out(self, now_ms: int) -> list[int]:
        """Return the nodes whose connection takes longer than its set-up timeout."""
        return [
            node_id
            for node_id in self._connecting
            if now_ms - self._nodes[node_id].last_attempt_ms > self._nodes[node_id].setup_timeout_ms
        ]

    def next_setup_timeout_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds until the first set-up timeout, or None when no connection is being made."""
        if not self._connecting:
            return None
        nodes = (self._nodes[node_id] for node_id in self._connecting)
        return max(min(node.last_attempt_ms + node.setup_timeout_ms for node in nodes) - now_ms, 0)
