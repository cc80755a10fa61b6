"""The sessions of a client's connections that end, and when the client logs in again (KIP-368).

Part of ConnectionStates, owned by its thread; no lock. Times are monotonic milliseconds. Kafka: SaslClientAuthenticator
(ReauthInfo), KafkaChannel (maybeBeginClientReauthentication).

A broker tells how long a session lasts when the client logs in. The client logs in again, on the same connection, after
85 to 95 percent of that time: early enough for a slow network, and not all connections at once.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from barnabas.rpc.node import Node
from barnabas.security.sasl.client.client_authenticator import SaslClientAuthenticator
from barnabas.transport.authenticator import Authenticator

EARLIEST_SHARE: Final = 0.85
JITTER_SHARE: Final = 0.10


class Session(NamedTuple):
    """The session of one connection. due_ms: when it is renewed, before the next request."""

    node: Node
    authenticator: SaslClientAuthenticator
    due_ms: int


class SessionRenewals:
    """The connections whose sessions end, by node id."""

    def __init__(self, random: Random | None) -> None:
        """random: for jitter; None: every session is renewed as early as possible."""
        self._random = random
        self._sessions: dict[int, Session] = {}

    def __bool__(self) -> bool:
        """Return whether any session ends: without SASL, none does."""
        return bool(self._sessions)

    def began(self, node: Node, authenticator: Authenticator | None, now_ms: int) -> None:
        """Note that a connection is ready. authenticator: the connection's; None: it is lost already."""
        if isinstance(authenticator, SaslClientAuthenticator) and authenticator.session_lifetime_ms > 0:
            jitter = 0.0 if self._random is None else self._random.random() * JITTER_SHARE
            lasts_ms = int(authenticator.session_lifetime_ms * (EARLIEST_SHARE + jitter))
            self._sessions[node.id] = Session(node, authenticator, now_ms + lasts_ms)

    def due(self, node_id: int, now_ms: int) -> Session | None:
        """Return the session of a connection that has to log in again before its next request, or None."""
        session = self._sessions.get(node_id)
        return session if session is not None and now_ms >= session.due_ms else None

    def forget(self, node_id: int) -> None:
        """Forget a connection: it is lost, or it logs in again."""
        self._sessions.pop(node_id, None)
