"""How many connections there are, and whether one more is allowed: per listener, per IP address, in all.

`increment` is called by Acceptors (and may make one wait), `decrement` by Processors, `reconfigure` where settings
change; one lock guards everything, and a condition on it wakes waiting Acceptors. Kafka: ConnectionQuotas.

- `max.connections.per.ip`, or the address's own limit: one more is closed without a word.
- `max.connections` of the listener: its Acceptor waits.
- `max.connections` of the broker: Acceptors wait, but for protected listeners; while these lead to more connections
  than that, the Processors of others give up those that have been idle longest. Protected is the inter-broker
  listener, if it is not the only one; and (Kafka forgets it) the control plane's.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 0.5
"""A waiting Acceptor looks this often whether it is to stop."""


class TooManyConnections(Exception):
    """An IP address has as many connections as it may; the new one is closed without a word."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"Too many connections from {address} (maximum = {limit})")
        self.address = address
        self.limit = limit


class ConnectionQuotas:
    """Counts of open connections, and their limits."""

    def __init__(self, config: NetworkConfig, clock: Clock) -> None:
        self._config = config
        self._max_connections = config.max_connections
        self._now = clock.nanoseconds
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._listener_limits: dict[str, ListenerConfig] = {}
        self._total = 0
        self._stopped = False
        self._changed = threading.Condition()

    def add_listener(self, listener: str, config: ListenerConfig) -> None:
        """Count the connections of `listener` by themselves; before its acceptor exists. Again changes nothing."""
        with self._changed:
            if listener not in self._listener_limits:
                self._listener_limits[listener] = config
                self._by_listener[listener] = 0
            self._changed.notify_all()

    def remove_listener(self, listener: str) -> None:
        """Forget a listener; connections of it that are still open count for the broker. Its Acceptor waits no more."""
        with self._changed:
            self._listener_limits.pop(listener, None)
            self._by_listener.pop(listener, None)
            self._changed.notify_all()

    def increment(self, listener: str, address: str) -> int:
        """Count a new connection, having waited for room; the nanoseconds waited.

        Raises TooManyConnections (and counts nothing) if its address has too many.
        """
        with self._changed:
            waited_ns = self._wait_for_slot(listener)
            limit = self._config.max_connections_per_ip_overrides.get(address, self._config.max_connections_per_ip)
            count = self._by_address.get(address, 0)
            if count >= limit:
                raise TooManyConnections(address, limit)
            self._by_address[address] = count + 1
            if listener in self._by_listener:
                self._by_listener[listener] += 1
            self._total += 1
            return waited_ns

    def decrement(self, listener: str, address: str) -> None:
        """A connection that was counted is closed. Raises ValueError for one that was not."""
        with self._changed:
            count = self._by_address.get(address, 0)
            listener_count = self._by_listener.get(listener)
            if not count or listener_count == 0:
                raise ValueError(f"No connections of {address} on listener {listener} are counted")
            if count == 1:
                del self._by_address[address]
            else:
                self._by_address[address] = count - 1
            if listener_count is not None:  # else it has been removed
                self._by_listener[listener] = listener_count - 1
            self._total -= 1
            self._changed.notify_all()  # any listener's Acceptor may be the one that can go on

    def reconfigure(self, config: NetworkConfig) -> None:
        """Apply new limits; connections that exceed the broker's are given up one a turn (see `exceeded`)."""
        with self._changed:
            self._config = config
            self._max_connections = config.max_connections
            for listener in self._listener_limits:
                self._listener_limits[listener] = config.for_listener(listener)
            self._changed.notify_all()

    def exceeded(self, listener: str) -> bool:
        """Whether a connection of `listener` must be given up: there are too many, and it is not protected."""
        return self._total > self._max_connections and not self._is_protected(listener)

    def count(self, address: str) -> int:
        """Open connections of one address."""
        with self._changed:
            return self._by_address.get(address, 0)

    def listener_count(self, listener: str) -> int:
        """Open connections of one listener."""
        with self._changed:
            return self._by_listener.get(listener, 0)

    @property
    def total(self) -> int:
        """Open connections in all."""
        return self._total

    def stop(self) -> None:
        """No acceptor waits any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # -- under the lock ----------------------------------------------------------------------------------------------

    def _wait_for_slot(self, listener: str) -> int:
        if self._may_go_on(listener):
            return 0
        started_ns = self._now()
        while not self._may_go_on(listener):
            self._changed.wait(WAIT_SECONDS)
        return self._now() - started_ns

    def _may_go_on(self, listener: str) -> bool:
        limits = self._listener_limits.get(listener)
        if self._stopped or limits is None:
            return True  # its Acceptor is about to end
        if self._by_listener[listener] >= limits.max_connections:
            return False
        return self._total < self._max_connections or self._is_protected(listener)

    def _is_protected(self, listener: str) -> bool:
        config = self._config
        if listener == config.control_plane_listener:
            return True
        return listener == config.inter_broker_listener and len(self._listener_limits) > 1
