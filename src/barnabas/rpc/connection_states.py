"""Where the connection to each node stands, and when the next attempt is due (Kafka: ClusterConnectionStates).

Owned by the NetworkClient's thread; no lock. Times are monotonic milliseconds, passed in.

    DISCONNECTED -> CONNECTING -> CHECKING_API_VERSIONS -> READY, and from each of them back to DISCONNECTED
    (or AUTHENTICATION_FAILED). A failed attempt doubles the wait before the next one; being ready resets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from random import Random

from barnabas.rpc.exponential_backoff import ExponentialBackoff


class ConnectionState(Enum):
    """State of the connection to one node."""

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


class _NodeState:
    __slots__ = (
        "addresses",
        "failures",
        "last_attempt_ms",
        "reconnect_backoff_ms",
        "setup_failures",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.state = ConnectionState.DISCONNECTED
        self.last_attempt_ms = 0
        self.failures = 0
        self.reconnect_backoff_ms = 0
        self.setup_failures = 0
        self.setup_timeout_ms = 0
        self.throttled_until_ms = 0


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

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether there is no connection, and the wait after the last failure is over."""
        node = self._nodes.get(node_id)
        if node is None:
            return True
        return node.state.is_disconnected and now_ms - node.last_attempt_ms >= node.reconnect_backoff_ms

    def is_blacked_out(self, node_id: int, now_ms: int) -> bool:
        """Whether the wait after a failure is not over."""
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state.is_disconnected
            and now_ms - node.last_attempt_ms < node.reconnect_backoff_ms
        )

    def connection_delay_ms(self, node_id: int, now_ms: int) -> int | None:
        """Milliseconds until something can be tried; None while a connection exists or is being made."""
        node = self._nodes.get(node_id)
        if node is None:
            return 0
        if node.state.is_disconnected:
            return max(node.reconnect_backoff_ms - (now_ms - node.last_attempt_ms), 0)
        return None

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int | None:
        """As `connection_delay_ms`, but a throttled node waits out its throttle."""
        throttled = self.throttle_delay_ms(node_id, now_ms)
        if self.is_connected(node_id) and throttled > 0:
            return throttled
        return self.connection_delay_ms(node_id, now_ms)

    def connecting(self, node_id: int, now_ms: int) -> None:
        """An attempt begins."""
        node = self._nodes.setdefault(node_id, _NodeState())
        node.state = ConnectionState.CONNECTING
        node.last_attempt_ms = now_ms
        node.setup_timeout_ms = self._setup_timeout.after(node.setup_failures)
        self._connecting.add(node_id)

    def next_address(self, node_id: int, resolve: Callable[[], Iterable[str]]) -> str:
        """The address for the attempt that begins: each one that `resolve` finds in turn, then it is asked again.

        Raises OSError, also when there are none.
        """
        addresses = self._nodes[node_id].addresses
        if not addresses:
            addresses.extend(resolve())
            if not addresses:
                raise OSError(f"node {node_id} has no address")
        return addresses.pop(0)

    def checking_api_versions(self, node_id: int) -> None:
        """The connection is there; versions are being asked for."""
        node = self._nodes[node_id]
        node.state = ConnectionState.CHECKING_API_VERSIONS
        node.setup_failures = 0
        self._connecting.discard(node_id)

    def ready(self, node_id: int) -> None:
        """Requests may be sent. Past failures are forgotten."""
        node = self._nodes[node_id]
        node.state = ConnectionState.READY
        node.failures = 0
        node.reconnect_backoff_ms = self._reconnect_backoff.after(0)
        node.setup_failures = 0
        self._connecting.discard(node_id)

    def disconnected(self, node_id: int, now_ms: int, *, authentication_failed: bool = False) -> None:
        """The connection, or the attempt to make it, is gone: wait before the next one."""
        node = self._nodes.setdefault(node_id, _NodeState())
        node.last_attempt_ms = now_ms
        node.reconnect_backoff_ms = self._reconnect_backoff.after(node.failures)
        node.failures += 1
        node.throttled_until_ms = 0
        if node.state is ConnectionState.CONNECTING:
            node.setup_failures += 1
            self._connecting.discard(node_id)
        failed = ConnectionState.AUTHENTICATION_FAILED
        node.state = failed if authentication_failed else ConnectionState.DISCONNECTED

    def throttle(self, node_id: int, until_ms: int) -> None:
        """The node asked for a pause; an earlier, longer one stands."""
        node = self._nodes.get(node_id)
        if node is not None and node.throttled_until_ms < until_ms:
            node.throttled_until_ms = until_ms

    def throttle_delay_ms(self, node_id: int, now_ms: int) -> int:
        """Milliseconds the node still wants no requests."""
        node = self._nodes.get(node_id)
        return max(node.throttled_until_ms - now_ms, 0) if node is not None else 0

    def forget(self, node_id: int) -> None:
        """The node is no longer of interest."""
        self._nodes.pop(node_id, None)
        self._connecting.discard(node_id)

    def state(self, node_id: int) -> ConnectionState:
        """State of one node; DISCONNECTED for one never tried."""
        node = self._nodes.get(node_id)
        return ConnectionState.DISCONNECTED if node is None else node.state

    def is_connected(self, node_id: int) -> bool:
        """Whether a connection exists, ready or not."""
        return self.state(node_id) in {ConnectionState.READY, ConnectionState.CHECKING_API_VERSIONS}

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether requests may be sent now."""
        node = self._nodes.get(node_id)
        return node is not None and node.state is ConnectionState.READY and node.throttled_until_ms <= now_ms

    def has_ready_nodes(self, now_ms: int) -> bool:
        """Whether any node takes requests now."""
        return any(self.is_ready(node_id, now_ms) for node_id in self._nodes)

    def any_preparing(self) -> bool:
        """Whether a connection is being made."""
        return any(node.state.is_preparing for node in self._nodes.values())

    def last_attempt_ms(self, node_id: int) -> int:
        """When the last attempt to connect began or failed; 0 for never."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.last_attempt_ms

    def setup_timed_out(self, now_ms: int) -> list[int]:
        """Nodes whose connection takes longer than its set-up timeout."""
        return [
            node_id
            for node_id in self._connecting
            if now_ms - self._nodes[node_id].last_attempt_ms > self._nodes[node_id].setup_timeout_ms
        ]

    def next_setup_timeout_ms(self, now_ms: int) -> int | None:
        """Milliseconds until the first set-up timeout; None when nothing is being set up."""
        if not self._connecting:
            return None
        nodes = (self._nodes[node_id] for node_id in self._connecting)
        return max(min(node.last_attempt_ms + node.setup_timeout_ms for node in nodes) - now_ms, 0)
