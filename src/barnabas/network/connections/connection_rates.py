"""The rates of new connections, and the delay that the next one has to wait: for the broker, a listener, an address.

Owned by ConnectionQuotas and used under its lock; milliseconds of a clock that does not go back come with each call.
Each rate is Kafka's sampled one (`quota.rate`). Kafka: ConnectionQuotas (its sensors), ListenerConnectionQuota,
ConnectionQuotaEntity.

A connection that makes the broker's or its listener's rate too high is accepted after a delay of one sample's length at
most, during which the Acceptor takes no other. A connection that makes its address's rate too high is closed after a
delay, and counts for no rate (KIP-612).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.metrics.rate import Average, Rate, SampleWindow
from barnabas.network.network_config import UNLIMITED
from barnabas.quota.quota_sensor import throttle_time_ms

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
    """The measured rates, and the limits of addresses, which come from client quotas (entity type ip)."""

    def __init__(self, window: SampleWindow) -> None:
        self._window = window
        self._broker = Rate(window)
        self._listeners: dict[str, _ListenerRates] = {}
        self._addresses: dict[str, _AddressRate] = {}
        self._look_again_at = FEW_ADDRESSES
        self._address_limit = UNLIMITED
        self._address_limits: dict[str, int] = {}

    def add_listener(self, listener: str) -> None:
        """Begin to measure a listener."""
        self._listeners[listener] = _ListenerRates(self._window)

    def remove_listener(self, listener: str) -> None:
        """Forget a listener."""
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
        accepted = "Connections accepted a second, by the measure of quotas, a second"
        of_all = "Connections accepted a second on all listeners, by the measure of quotas, a second"
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
