"""The attempts to connect that fail, reported so that a person soon sees why a client stands still, and not too often.

Owned by a NetworkClient or PeerConnection, on its thread; no lock. Times are monotonic milliseconds, passed in. Both
go on trying for as long as the caller waits, which may be minutes. A warning names the address and the reason: at
once for the first failure and for another reason, then at most once in ten seconds for a node. An attempt that hangs,
because no machine answers at the address, is reported after two seconds, long before it times out. Kafka's clients log
each attempt.

    t = 0 ms        Cannot connect to broker b:9092 (id: 1): connection refused. Trying again.
    t = 50, 150...  nothing
    t = 10,000      Cannot connect to broker b:9092 (id: 1): connection refused. Trying again; 14 attempts have failed.
    t = 12,000      Connected to broker b:9092 (id: 1) after 16 failed attempts.
"""

from __future__ import annotations

import logging

from barnabas.rpc.connection_states import Node
from barnabas.transport.channel.authenticator import AuthenticationFailed
from barnabas.transport.channel.kafka_channel import ChannelState

logger = logging.getLogger(__name__)

_REPORT_INTERVAL_MS = 10_000
_SLOW_MS = 2_000
_LOST = "the connection was lost"
_ENDS = {
    ChannelState.NOT_CONNECTED: "the connection could not be established",
    ChannelState.AUTHENTICATE: "the broker closed the connection during the handshake",
    ChannelState.READY: _LOST,
    ChannelState.LOCAL_CLOSE: "the client closed the connection",
    ChannelState.EXPIRED: "the connection was idle",
}
"""What users read of the ends of connections."""


def loss_in_words(state: ChannelState, error: OSError | AuthenticationFailed | None) -> str:
    """Return why a connection has ended. state: the one it ended in; error: why it did not become ready, if known."""
    return _ENDS.get(state, state.value) if error is None else reason_of(error)


def reason_of(error: OSError | AuthenticationFailed) -> str:
    """Return the words of the system, such as "connection refused", or those of a failed handshake or login."""
    if isinstance(error, AuthenticationFailed):
        return str(error)
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


class _Attempts:
    """The attempts to connect to one node since the last success."""

    __slots__ = ("failures", "node", "reason", "reported_ms", "reported_reason", "slow_at_ms")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.failures = 0
        self.reason = _LOST
        self.reported_ms = 0
        self.reported_reason: str | None = None
        self.slow_at_ms: int | None = None
        """When the attempt that is going on is to be reported as slow; None if none is, or that was reported."""

    @property
    def address(self) -> str:
        # The ids of bootstrap servers are the client's own, and mean nothing to a user.
        return str(self.node) if self.node.id >= 0 else f"{self.node.host}:{self.node.port}"

    def is_report_due(self, reason: str, now_ms: int) -> bool:
        return reason != self.reported_reason or now_ms - self.reported_ms >= _REPORT_INTERVAL_MS

    def note_report(self, reason: str, now_ms: int) -> None:
        self.reported_reason = reason
        self.reported_ms = now_ms


class ConnectionFailures:
    """The failed attempts by node."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Attempts] = {}

    def begun(self, node: Node, now_ms: int) -> None:
        """Note that an attempt begins. A node that has moved to another address has no failures yet."""
        attempts = self._nodes.get(node.id)
        if attempts is None or attempts.node != node:
            attempts = self._nodes[node.id] = _Attempts(node)
        attempts.slow_at_ms = now_ms + _SLOW_MS

    def failed(self, node_id: int, reason: str, now_ms: int) -> None:
        """Note that an attempt has failed, and report the failure if a report is due."""
        attempts = self._nodes.get(node_id)
        if attempts is None:
            return
        attempts.slow_at_ms = None
        attempts.reason = reason
        attempts.failures += 1
        if not attempts.is_report_due(reason, now_ms):
            logger.debug("Cannot connect to broker %s: %s", attempts.address, reason)
            return
        count = f"; {attempts.failures} attempts have failed" if attempts.failures > 1 else ""
        logger.warning("Cannot connect to broker %s: %s. Trying again%s.", attempts.address, reason, count)
        attempts.note_report(reason, now_ms)

    def reason(self, node_id: int) -> str:
        """Return why the last attempt failed; of a connection that was made and lost since, that it was lost."""
        attempts = self._nodes.get(node_id)
        return _LOST if attempts is None else attempts.reason

    def node_of(self, node_id: int) -> Node | None:
        """Return the node of the attempts that have not succeeded yet; None if there are none."""
        attempts = self._nodes.get(node_id)
        return None if attempts is None else attempts.node

    def succeeded(self, node_id: int) -> None:
        """Note that the node takes requests, and report the end of the failures, if there were some."""
        attempts = self._nodes.pop(node_id, None)
        if attempts is not None and attempts.failures:
            number = f"{attempts.failures} failed attempt{'' if attempts.failures == 1 else 's'}"
            logger.info("Connected to broker %s after %s.", attempts.address, number)

    def report_slow(self, now_ms: int) -> None:
        """Report the attempts that hang."""
        for attempts in self._nodes.values():
            if attempts.slow_at_ms is not None and now_ms >= attempts.slow_at_ms:
                attempts.slow_at_ms = None
                reason = "no answer yet"
                if attempts.is_report_due(reason, now_ms):
                    logger.warning("Cannot connect to broker %s: %s. Still waiting.", attempts.address, reason)
                    attempts.note_report(reason, now_ms)

    def next_report_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds until `report_slow` may have something to report, None without such an attempt."""
        due = [attempts.slow_at_ms for attempts in self._nodes.values() if attempts.slow_at_ms is not None]
        return max(min(due) - now_ms, 0) if due else None

    def forget(self, node_id: int) -> None:
        """Forget a node that is no longer of interest."""
        self._nodes.pop(node_id, None)
