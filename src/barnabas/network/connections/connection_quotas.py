"""The count of connections, and the limits that a new one must meet: per listener, per IP address, in all.

`increment` is called by Acceptors, and may make one wait; `decrement` by Processors; `reconfigure` by the thread that
changes settings. One lock guards everything, and a condition on it wakes waiting Acceptors. Kafka: ConnectionQuotas.

| limit | what happens to a connection beyond it |
|---|---|
| `max.connections.per.ip`, or the address's own | it is closed without an answer |
| `max.connections` of the listener | the listener's Acceptor waits |
| `max.connections` of the broker | Acceptors wait, except those of protected listeners |
| `max.connection.creation.rate` of the broker or listener | the Acceptor waits until the rate has come down |
| the rate of an address (a client quota) | it is closed after a delay |

Protected listeners may exceed the broker's limit, and do not count for its rate; the Processors of other listeners then
close the connections that have been idle longest. The inter-broker listener is protected, if it is not the only one,
and so is the control plane's (Kafka's ConnectionQuotas.protectedListener covers the inter-broker listener only).

Each rate is Kafka's sampled one (`metrics.rate`). A connection that makes the broker's or its listener's rate too high
is delayed by one sample's length at most, during which the Acceptor takes no other. A connection that makes its
address's rate too high counts for no rate (KIP-612).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.metrics.rate import Average, Rate, SampleWindow
from barnabas.network.network_config import UNLIMITED, ListenerConfig, NetworkConfig, canonical_address
from barnabas.quota.quota_sensor import throttle_time_ms
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 0.5
"""How often a waiting Acceptor checks whether it has to stop."""
FEW_ADDRESSES: Final = 1000
"""How many addresses' rates are kept. Beyond that, addresses that have not connected for a whole window are
forgotten."""


class ConnectionThrottled(Exception):
    """The error for an IP address that connects too often; the new connection is closed after `delay_ms`."""

    def __init__(self, address: str, delay_ms: int) -> None:
        super().__init__(f"{address} throttled for {delay_ms} ms")
        self.address = address
        self.delay_ms = delay_ms


class RateSample(NamedTuple):
    """A metric of this layer by Kafka's name, with its tag, for the registry to publish."""

    name: str
    tags: tuple[tuple[str, str], ...]
    value: float
    description: str


class _ListenerRates:
    """The measurements of one listener: connections a second, and the mean of the delays above zero."""

    __slots__ = ("accepted", "address_delays", "delays")

    def __init__(self, window: SampleWindow) -> None:
        self.accepted = Rate(window)
        self.delays = Average(window)
        self.address_delays = Average(window)


class _AddressRate:
    __slots__ = ("accepted", "last_ms")

    def __init__(self, window: SampleWindow, now_ms: int) -> None:
        self.accepted = Rate(window)
        self.last_ms = now_ms


class ConnectionRates:
    """The measured rates, and the limits of addresses, which come from client quotas (entity type ip).

    Owned by ConnectionQuotas, used under its lock. Milliseconds of a clock that does not go back come with each call.
    """

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._broker = Rate(window)
        self._listeners: dict[str, _ListenerRates] = {}
        self._addresses: dict[str, _AddressRate] = {}
        self._look_again_at = FEW_ADDRESSES
        self._address_limit = UNLIMITED
        self._address_limits: dict[str, int] = {}

    def add_listener(self, listener: str) -> None:
        """Begin to measure the connections and delays of a listener."""
        self._listeners[listener] = _ListenerRates(self._window)

    def remove_listener(self, listener: str) -> None:
        """Forget a listener and its measurements."""
        self._listeners.pop(listener, None)

    def limit_address(self, address: str | None, rate: int | None) -> None:
        """Limit the connections a second of an address; an address of None sets the default of all others.

        A rate of None removes the limit.
        """
        if address is None:
            self._address_limit = UNLIMITED if rate is None else rate
        elif rate is None:
            self._address_limits.pop(address, None)
        else:
            self._address_limits[address] = rate
        # Addresses are measured only while one of them has a limit: clients choose how many addresses there are.
        if self._address_limit == UNLIMITED and not self._address_limits:
            self._addresses.clear()

    def address_limit(self, address: str) -> int:
        """Return how many connections a second an address may make."""
        return self._address_limits.get(address, self._address_limit)

    def delay_ms(self, listener: str, broker_limit: int | None, listener_limit: int, now_ms: int) -> int:
        """Count a connection of `listener` and return how long it has to wait.

        With a `broker_limit` of None the connection does not count for the broker.
        """
        delay_ms = 0
        if broker_limit is not None:
            delay_ms = self._record(self._broker, broker_limit, now_ms)
        rates = self._listeners.get(listener)
        if rates is None:
            return 0
        delay_ms = max(delay_ms, self._record(rates.accepted, listener_limit, now_ms))
        if delay_ms:
            rates.delays.record(delay_ms, now_ms)
        return delay_ms

    def check_address(self, listener: str, address: str, counts_for_broker: bool, now_ms: int) -> None:
        """Count a connection of `address`.

        Raises ConnectionThrottled when the address makes too many a second; nothing is counted then.
        """
        limit = self.address_limit(address)
        if limit == UNLIMITED:
            return
        rate = self._address_rate(address, now_ms)
        delay_ms = self._record(rate, limit, now_ms)
        if not delay_ms:
            return
        # The connection is rejected, so it counts for no rate. Its count is taken back here, and from the rates of the
        # broker and its listener, which `delay_ms` counted before the address was known to be over its limit.
        rate.record(-1, now_ms)
        if counts_for_broker:
            self._broker.record(-1, now_ms)
        rates = self._listeners.get(listener)
        if rates is not None:
            rates.accepted.record(-1, now_ms)
            rates.address_delays.record(delay_ms, now_ms)
        raise ConnectionThrottled(address, delay_ms)

    def samples(self, now_ms: int) -> Iterator[RateSample]:
        """Yield the current rates and mean delays, by the names of Kafka's group socket-server-metrics."""
        accepted = "Connections accepted, by the measure of quotas, a second"
        of_all = "Connections accepted on all listeners, by the measure of quotas, a second"
        delayed = "Mean delay of accepted connections, milliseconds"
        refused = "Mean delay of connections closed because of their address, milliseconds"
        yield RateSample("broker-connection-accept-rate", (), self._broker.measure(now_ms), of_all)
        for listener, rates in self._listeners.items():
            tags = (("listener", listener),)
            yield RateSample("connection-accept-rate", tags, rates.accepted.measure(now_ms), accepted)
            yield RateSample("connection-accept-throttle-time", tags, rates.delays.measure(now_ms), delayed)
            yield RateSample("ip-connection-accept-throttle-time", tags, rates.address_delays.measure(now_ms), refused)
        for address, rate in self._addresses.items():
            yield RateSample("connection-accept-rate", (("ip", address),), rate.accepted.measure(now_ms), accepted)

    def _record(self, rate: Rate, limit: int, now_ms: int) -> int:
        rate.record(1, now_ms)
        if limit == UNLIMITED:
            return 0
        measured = rate.measure(now_ms)
        if measured <= limit:
            return 0
        return min(throttle_time_ms(measured, limit, rate.window_ms(now_ms)), self._window.sample_ms)

    def _address_rate(self, address: str, now_ms: int) -> Rate:
        known = self._addresses.get(address)
        if known is None:
            if len(self._addresses) >= self._look_again_at:
                self._forget_idle(now_ms)
            known = self._addresses[address] = _AddressRate(self._window, now_ms)
        known.last_ms = now_ms
        return known.accepted

    def _forget_idle(self, now_ms: int) -> None:
        """Forget the rates to which nothing was added for a whole window: they are zero."""
        # Not again before their number has doubled, so that the cost of a pass is spread over as many new addresses.
        oldest_ms = now_ms - self._window.duration_ms
        self._addresses = {key: rate for key, rate in self._addresses.items() if rate.last_ms > oldest_ms}
        self._look_again_at = max(FEW_ADDRESSES, 2 * len(self._addresses))


class TooManyConnections(Exception):
    """The error for an IP address at its limit of connections; the new one is closed without an answer."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"Too many connections from {address} (maximum = {limit})")
        self.address = address
        self.limit = limit


class ConnectionQuotas:
    """The counts and rates of connections, and their limits.

    `wait` waits on a condition; tests advance the clock instead.
    """

    def __init__(
        self,
        config: NetworkConfig,
        clock: Clock,
        wait: Callable[[threading.Condition, float], object] = threading.Condition.wait,
    ) -> None:
        self._config = config
        self._max_connections = config.max_connections
        self._now = clock.nanoseconds
        self._wait = wait
        self._rates = ConnectionRates(SampleWindow(config.quota_samples, config.quota_window_ms))
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._listener_limits: dict[str, ListenerConfig] = {}
        self._total = 0
        self._stopped = False
        self._is_starting = False
        self._changed = threading.Condition()

    def add_listener(self, listener: str, config: ListenerConfig) -> None:
        """Begin to count the connections of `listener`, before its Acceptor exists. A second call changes nothing.

        A listener that was removed and comes back keeps the count of its connections that are still open.
        """
        with self._changed:
            if listener not in self._listener_limits:
                self._listener_limits[listener] = config
                self._by_listener.setdefault(listener, 0)
                self._rates.add_listener(listener)
            # With a second listener the inter-broker listener becomes protected, so its Acceptor may have room now.
            self._changed.notify_all()

    def remove_listener(self, listener: str) -> None:
        """Forget a listener and release its waiting Acceptor. Its connections that are still open remain counted."""
        with self._changed:
            self._listener_limits.pop(listener, None)
            self._rates.remove_listener(listener)
            self._changed.notify_all()

    def increment(self, listener: str, address: str) -> int:
        """Wait for room, then count a new connection. Returns the nanoseconds waited.

        Raises TooManyConnections when the address has too many connections, ConnectionThrottled when the address makes
        too many a second; the connection is not counted then.
        """
        with self._changed:
            # Waiting comes first, as in Kafka: an address is judged by what is open when there is room, not before.
            waited_ns = self._wait_for_slot(listener)
            if not self._is_starting:
                self._check_address(listener, address)
            self._by_address[address] = self._by_address.get(address, 0) + 1
            self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
            self._total += 1
            return waited_ns

    def decrement(self, listener: str, address: str) -> None:
        """Stop counting a closed connection. Raises ValueError when no such connection was counted."""
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
            self._changed.notify_all()  # any listener's Acceptor may be the one that can go on

    def reconfigure(self, config: NetworkConfig) -> None:
        """Apply new limits. While there are too many connections, each Processor closes one a turn (`exceeded`)."""
        with self._changed:
            self._config = config
            self._max_connections = config.max_connections
            for listener in self._listener_limits:
                self._listener_limits[listener] = config.for_listener(listener)
            self._changed.notify_all()

    def update_ip_connection_rate_quota(self, ip: str | None, rate: int | None) -> None:
        """Set how many connections a second `ip` may make; an `ip` of None sets the default of all other addresses.

        A rate of None removes the limit. Raises ValueError when `ip` is no address.
        """
        address = None if ip is None else canonical_address(ip)
        with self._changed:
            self._rates.limit_address(address, rate)
        what = "the default max IP connection rate" if ip is None else f"the max connection rate of {ip}"
        logger.info("Updated %s to %s", what, "none" if rate is None else rate)

    def connection_rate_for_ip(self, ip: str) -> int:
        """Return how many connections a second an address may make. Raises ValueError when `ip` is no address."""
        with self._changed:
            return self._rates.address_limit(canonical_address(ip))

    def rate_samples(self) -> list[RateSample]:
        """Return the rates of new connections and the mean delays, as metrics."""
        with self._changed:
            return list(self._rates.samples(self._now_ms()))

    def exceeded(self, listener: str) -> bool:
        """Return whether there are too many connections, and `listener` is not protected: one of its must be closed."""
        # Without the lock, because every Processor asks in every turn: a count that is a moment old delays the close by
        # one turn.
        return self._total > self._max_connections and not self._is_protected(listener)

    def count(self, address: str) -> int:
        """Return the number of open connections of one address."""
        with self._changed:
            return self._by_address.get(address, 0)

    def listener_count(self, listener: str) -> int:
        """Return the number of open connections of one listener."""
        with self._changed:
            return self._by_listener.get(listener, 0)

    @property
    def total(self) -> int:
        """The number of open connections in all."""
        return self._total

    def stop(self) -> None:
        """Release all waiting Acceptors, because the broker stops."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def starting(self, is_starting: bool) -> None:
        """Say whether the broker is starting. Until it has started, no address is rejected.

        Clients wait for the end of the start anyway. With a limit of 0 for each address the broker's own controller
        could not reach the broker, and no client could raise the limit again.
        """
        with self._changed:
            self._is_starting = is_starting

    # -- under the lock

    def _check_address(self, listener: str, address: str) -> None:
        """Check the limits of one address. Raises TooManyConnections or ConnectionThrottled, as `increment` says."""
        self._rates.check_address(listener, address, not self._is_protected(listener), self._now_ms())
        limit = self._config.max_connections_per_ip_overrides.get(address, self._config.max_connections_per_ip)
        if self._by_address.get(address, 0) >= limit:
            raise TooManyConnections(address, limit)

    def _wait_for_slot(self, listener: str) -> int:
        started_ns = self._now()
        ends_ns = started_ns + self._delay_ms(listener) * NANOSECONDS_PER_MILLISECOND
        if ends_ns == started_ns and self._has_room(listener):
            return 0
        # A delay stays as it is, even if the limit is raised: it holds one connection a listener, and is
        # short. The wait releases the lock, so Processors can count closed connections, which may be what makes room.
        while self._is_open(listener):
            left_ns = ends_ns - self._now()
            if left_ns <= 0 and self._has_room(listener):
                break
            self._wait(self._changed, min(left_ns / 1e9, WAIT_SECONDS) if left_ns > 0 else WAIT_SECONDS)
        return self._now() - started_ns

    def _delay_ms(self, listener: str) -> int:
        limits = self._listener_limits.get(listener)
        if limits is None:
            return 0
        broker_limit = None if self._is_protected(listener) else self._config.max_connection_creation_rate
        return self._rates.delay_ms(listener, broker_limit, limits.max_connection_creation_rate, self._now_ms())

    def _is_open(self, listener: str) -> bool:
        return not self._stopped and listener in self._listener_limits  # else its Acceptor is about to end

    def _has_room(self, listener: str) -> bool:
        limits = self._listener_limits.get(listener)
        if limits is not None and self._by_listener[listener] >= limits.max_connections:
            return False
        return self._total < self._max_connections or self._is_protected(listener)

    def _now_ms(self) -> int:
        return self._now() // NANOSECONDS_PER_MILLISECOND

    def _is_protected(self, listener: str) -> bool:
        config = self._config
        if listener == config.control_plane_listener:
            return True
        return listener == config.inter_broker_listener and len(self._listener_limits) > 1
