"""Whether a broker's process still listens, as the controller's channel to it sees it.

A killed process leaves a session in the store that ends only after its timeout, but its sockets are closed at once: the
connection is lost, and the next one is refused. A host that is down, and a link that is cut, refuse nothing; they are
left to the session's timeout. Why this is safe: docs/decisions/0062.

Owned by the channel's thread, so no lock. Kafka has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.controller.broker_channel import OnReachabilityChange

# A listener that is bound anew is closed for a moment.
_REFUSALS_OF_A_DEAD_BROKER: Final = 2


class BrokerReachability:
    """Told of the channel's connections, it tells the controller of changes.

    refuses_connections: asks whether nothing listens at the broker's address.
    """

    def __init__(self, refuses_connections: Callable[[], bool], on_change: OnReachabilityChange) -> None:
        self._refuses_connections = refuses_connections
        self._on_change = on_change
        self._was_connected = False
        self._refusals = 0
        self._is_reachable = True
        self.was_unreachable = False
        """Whether the broker has refused connections at some time."""

    def on_connected(self) -> None:
        """Note a connection that can be used."""
        self._was_connected = True
        self._refusals = 0
        self._tell(is_reachable=True)

    def on_connection_lost(self) -> None:
        """Note a connection that was lost, or that could not be established. Returns within a second."""
        # Apache Kafka's brokers register before they listen: only a broker that was connected can have died.
        if self._is_reachable and self._was_connected:
            self._refusals = self._refusals + 1 if self._refuses_connections() else 0
            self._tell(is_reachable=self._refusals < _REFUSALS_OF_A_DEAD_BROKER)

    def _tell(self, *, is_reachable: bool) -> None:
        if is_reachable is not self._is_reachable:
            self._is_reachable = is_reachable
            self.was_unreachable = True
            self._on_change(is_reachable)
