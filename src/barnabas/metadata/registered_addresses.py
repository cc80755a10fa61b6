"""The addresses at which the brokers of the cluster have registered: requests of brokers may come from there.

Made by the table of APIs, for the first request of another broker. Asked by request handlers on their threads, since a
look may read the store and ask the name server. `_lock` guards the addresses; one thread reads, and the others wait for
it. See decisions/0061.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.transport.host_addresses import IpAddress, UnknownHost, host_addresses, ip_address_of
from barnabas.zk.store.errors import StoreError
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

logger = logging.getLogger(__name__)

KEPT_MS: Final = 10_000
"""So long an address is trusted after its broker has gone, or has another address."""
LEAST_INTERVAL_MS: Final = 500
"""So long strangers are refused without another look, so that their requests do not load the store."""


class RegisteredAddresses:
    """The addresses of the brokers' end points of one listener.

    - registrations: reads the live brokers from the store;
    - listener_name: the brokers' own listener;
    - resolve: looks up a host and a port. Raises UnknownHost.
    """

    def __init__(
        self,
        registrations: Callable[[], Iterable[BrokerInfo]],
        listener_name: str,
        clock: Clock,
        resolve: Callable[[str, int], Collection[str]] = host_addresses,
    ) -> None:
        self._registrations = registrations
        self._listener_name = listener_name
        self._clock = clock
        self._resolve = resolve
        self._lock = threading.Lock()
        self._addresses: frozenset[IpAddress] = frozenset()
        self._read_at_ms: int | None = None

    def includes(self, address: str) -> bool:
        """Return whether a broker has registered with this address, in decimal or hexadecimal notation."""
        wanted = ip_address_of(address)
        if wanted is None:
            return False
        with self._lock:
            age_ms = self._age_ms()
            if age_ms is None or age_ms >= (KEPT_MS if wanted in self._addresses else LEAST_INTERVAL_MS):
                self._read()
            return wanted in self._addresses

    def _age_ms(self) -> int | None:
        return None if self._read_at_ms is None else self._now_ms() - self._read_at_ms

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _read(self) -> None:
        self._read_at_ms = self._now_ms()
        try:
            brokers = list(self._registrations())
        except StoreError as error:
            # Brokers go on without the store, and with what they knew of each other.
            logger.warning("Cannot read which addresses the brokers have: %s", error)
            return
        self._addresses = frozenset(address for broker in brokers for address in self._addresses_of(broker))

    def _addresses_of(self, broker: BrokerInfo) -> set[IpAddress]:
        found: set[IpAddress] = set()
        for end_point in broker.endpoints:
            if end_point.listener_name == self._listener_name:
                try:
                    resolved = self._resolve(end_point.host, end_point.port)
                except UnknownHost as error:
                    logger.warning("Broker %d has registered as %s: %s", broker.id, end_point.host, error)
                else:
                    found.update(address for text in resolved if (address := ip_address_of(text)) is not None)
        return found
