"""The metrics of the session with ZooKeeper, by Kafka's names: connections, losses, expiries, logins, latencies.

A metric family, made and registered by `broker` where the store is ZooKeeper. `ZookeeperStore` counts, on the threads
of its callers and of kazoo's connection; `_lock` guards the counts.
Kafka: ZooKeeperClient (type SessionExpireListener), KafkaZkClient (type ZooKeeperClientMetrics).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

from kazoo.protocol.states import KeeperState

from barnabas.metrics.histogram import DurationHistogram
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MBeanName, Sample

_GROUP: Final = "kafka.server"
_SESSION: Final = "SessionExpireListener"
_CLIENT: Final = "ZooKeeperClientMetrics"
_LOGINS: Final = "SaslAuthentications"
_EVENTS: Final = {
    KeeperState.CONNECTED: "SyncConnects",
    KeeperState.CONNECTED_RO: "ReadOnlyConnects",
    KeeperState.CONNECTING: "Disconnects",
    KeeperState.EXPIRED_SESSION: "Expires",
    KeeperState.AUTH_FAILED: "AuthFailures",
}
"""The state that a session comes into -> the part of Kafka's name that says so (ZooKeeper...PerSec)."""
_DESCRIPTIONS: Final = {
    "SyncConnects": "Connections made to ZooKeeper",
    "ReadOnlyConnects": "Connections made to a ZooKeeper that is read-only",
    "Disconnects": "Connections to ZooKeeper lost",
    "Expires": "Sessions with ZooKeeper expired",
    "AuthFailures": "Logins to ZooKeeper refused",
    _LOGINS: "Logins to ZooKeeper",
}


class ZookeeperMetrics:
    """The counts of one store since its start. now_ns: monotonic time."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self._lock = threading.Lock()
        self._meters = {event: Meter() for event in _DESCRIPTIONS}
        self._latencies = DurationHistogram()
        self._state: str = KeeperState.CONNECTING

    def came_into(self, state: str, *, has_login: bool) -> None:
        """Count the state, kazoo's, that the session has come into. has_login: whether each connection logs in."""
        with self._lock:
            self._state = state
            if (event := _EVENTS.get(state)) is not None:
                self._meters[event].count += 1
            if has_login and state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
                self._meters[_LOGINS].count += 1

    def answered(self, sent_ns: int) -> None:
        """Count an answer to a request that was sent at `sent_ns`."""
        with self._lock:
            self._latencies.update(self.now_ns() - sent_ns)

    def samples(self) -> Iterator[Sample]:
        """Yield a meter for each event, the session's state as a tag, and the latencies."""
        for event, meter in self._meters.items():
            name = MBeanName(_GROUP, _SESSION, f"ZooKeeper{event}PerSec")
            yield Sample(name, meter.count, _DESCRIPTIONS[event], meter.rates)
        name = MBeanName(_GROUP, _SESSION, "SessionState", (("value", self._state),))
        yield Sample(name, 1, "The state of the session, in the label `value`")
        name, spread = MBeanName(_GROUP, _CLIENT, "ZooKeeperRequestLatencyMs"), self._latencies.distribution()
        yield Sample(name, spread.count, "From a request to ZooKeeper to its answer", distribution=spread)

    def tick(self, elapsed_seconds: float) -> None:
        """Bring the rates and the weights of percentiles up to date."""
        for meter in self._meters.values():
            meter.tick(elapsed_seconds)
        self._latencies.tick(elapsed_seconds)
