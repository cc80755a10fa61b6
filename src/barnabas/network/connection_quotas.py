"""How many connections there are, and whether one more is allowed: per listener, per IP address, in all.

`increment` is called by Acceptors (and may make one wait), `decrement` by Processors; one lock guards the counts, and
a condition on it wakes a waiting Acceptor. Kafka: ConnectionQuotas; rates come with the quota layer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

_WAIT_SECONDS = 0.5  # a waiting acceptor looks this often whether it is to stop


class TooManyConnections(Exception):
    """An IP address has as many connections as it may; the new one is closed without a word."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"Too many connections from {address} (maximum = {limit})")
        self.address = address
        self.limit = limit


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """One snapshot of the limits, replaced as a whole when the configuration changes."""

    max_connections: int = 2_147_483_647
    per_ip: int = 2_147_483_647
    per_ip_overrides: Mapping[str, int] | None = None
    protected_listener: str | None = None
    """The inter-broker listener: `max_connections` never refuses it; connections of others are given up for it."""

    def for_address(self, address: str) -> int:
        """The limit of one address."""
        return (self.per_ip_overrides or {}).get(address, self.per_ip)


class ConnectionQuotas:
    """Counts of open connections."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._total = 0
        self._stopped = False
        self._changed = threading.Condition()

    def increment(self, listener: str, address: str) -> None:
        """Count a new connection, waiting for room if the broker is full and the listener is not protected.

        Raises TooManyConnections (and counts nothing) if its address has too many.
        """
        with self._changed:
            while self._is_full(listener) and not self._stopped:
                self._changed.wait(_WAIT_SECONDS)
            limit = self.limits.for_address(address)
            count = self._by_address.get(address, 0)
            if count >= limit:
                raise TooManyConnections(address, limit)
            self._by_address[address] = count + 1
            self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
            self._total += 1

    def decrement(self, listener: str, address: str) -> None:
        """A connection that was counted is closed. Raises ValueError for one that was not."""
        with self._changed:
            count = self._by_address.get(address, 0)
            listener_count = self._by_listener.get(listener, 0)
            if not count or not listener_count:
                raise ValueError(f"No connections of {address} on listener {listener} are counted")
            if count == 1:
                del self._by_address[address]
            else:
                self._by_address[address] = count - 1
            self._by_listener[listener] = listener_count - 1
            self._total -= 1
            self._changed.notify()

    def update(self, limits: ConnectionLimits) -> None:
        """Apply new limits; connections that exceed them are given up one a turn (see `exceeded`)."""
        with self._changed:
            self.limits = limits
            self._changed.notify_all()

    def exceeded(self, listener: str) -> bool:
        """Whether a connection of `listener` must be given up: there are too many, and it is not protected."""
        return self._total > self.limits.max_connections and listener != self.limits.protected_listener

    def count(self, address: str) -> int:
        """Open connections of one address."""
        with self._changed:
            return self._by_address.get(address, 0)

    @property
    def total(self) -> int:
        """Open connections in all."""
        return self._total

    def stop(self) -> None:
        """No acceptor waits any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_full(self, listener: str) -> bool:
        return self._total >= self.limits.max_connections and listener != self.limits.protected_listener
