"""The network layer's metrics by Kafka's names: queues, network threads, acceptors, handlers, sockets, memory.

A metric family, registered by `broker` when the SocketServer exists; ticked by the scheduler, read by the threads that
publish metrics. Every value is read from the SocketServer at each call, since listeners and threads come and go;
`_lock` guards the counts of earlier ticks. Sums over counters of other threads may be a moment late. Kafka:
SocketServer, Acceptor, Processor, RequestChannel, KafkaRequestHandlerPool, and Selector (group socket-server-metrics).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.metrics.rate import RecentRate
from barnabas.network.acceptor import Acceptor
from barnabas.network.connections.channel_builders import CONTROL_PLANE
from barnabas.network.processor import Processor
from barnabas.network.request_handler import RequestHandlerPool
from barnabas.network.requests.request_channel import RequestChannel
from barnabas.network.requests.request_metrics import ProcessorCounts, RequestMetrics
from barnabas.network.socket_server import SocketServer
from barnabas.runtime.clock import Clock

NETWORK: Final = "kafka.network"
SERVER: Final = "kafka.server"
SOCKET_METRICS: Final = "socket-server-metrics"
CONTROL_PLANE_PREFIX: Final = "ControlPlane"
MOST_CLIENTS: Final = 100
"""How many kinds of client software are named for one network thread, as in Kafka (IntGaugeSuite)."""

TOTALS: Final = (
    ("connection-creation", "connections_created", "Connections accepted"),
    ("connection-close", "connections_closed", "Connections closed"),
    ("successful-authentication", "successful_authentications", "Connections that authenticated"),
    ("failed-authentication", "failed_authentications", "Connections that did not"),
    ("incoming-byte", "bytes_received", "Bytes received"),
    ("outgoing-byte", "bytes_sent", "Bytes sent"),
    ("select", "select_calls", "Turns of the network thread"),
)
"""Kafka's name of a rate and a total, the Selector's counter, and the description."""
SESSION_TOTALS: Final = (
    ("successful-reauthentication", "successful_reauthentications", "Logins on live connections (KIP-368)"),
    ("failed-reauthentication", "failed_reauthentications", "Logins on live connections that failed"),
)
"""The same, of the counters about sessions."""
TIMES: Final = (("io-wait", "idle_ns", "waiting"), ("io", "io_ns", "moving bytes"))
"""Kafka's name of a share of time, the Selector's counter of nanoseconds, and what the time is spent on."""
EXCHANGES: Final = {
    "request": "Answers sent; Kafka's Selector, also the clients', calls them requests",
    "response": "Requests received; Kafka's Selector calls them responses",
    "network-io": "Requests received and answers sent",
}
EXPIRED: Final = "Connections closed because their session had ended"

DEPLETED: Final = "memory pool"
"""The key of the memory pool's time without memory."""

Tags = tuple[tuple[str, str], ...]


class NetworkMetrics:
    """The metric family of one SocketServer and its handler pools."""

    def __init__(
        self,
        sockets: SocketServer,
        pools: Sequence[RequestHandlerPool],
        requests: RequestMetrics,
        clock: Clock,
    ) -> None:
        """pools: the data plane's, and the control plane's if there is one."""
        self._sockets = sockets
        self._pools = pools
        self._requests = requests
        self._now = clock.nanoseconds
        self._lock = threading.Lock()
        self._rates: dict[Hashable, RecentRate] = {}
        self._reported: dict[Hashable, int] = {}
        self.tick(0)

    def tick(self, elapsed_seconds: float) -> None:
        """Remember every count, for rates, and forget the counts of threads that have ended."""
        processors = self._sockets.processors
        with self._lock:
            now_ns = self._now()
            rates, self._rates = self._rates, {}
            # Only counts that still exist are taken over, so threads that are gone leave nothing behind.
            for key, total in self._totals(processors):
                rate = self._rates[key] = rates.get(key) or RecentRate(total, now_ns)
                rate.tick(total, now_ns)
            self._reported = {key: total for key, total in self._reported.items() if key in self._rates}
        self._requests.retire_all_but([processor.processor_id for processor in processors])

    def samples(self) -> Iterable[Sample]:
        """Return the current value of every metric."""
        with self._lock:
            return [
                *self._of_planes(),
                *self._of_processors(),
                *self._of_acceptors(),
                *self._of_handlers(),
                *self._of_memory(),
                *self._of_connections(),
            ]

    # -- under the lock

    def _totals(self, processors: Sequence[Processor]) -> Iterator[tuple[Hashable, int]]:
        for processor in processors:
            counters = processor.counters
            for _, counter, _ in (*TOTALS, *TIMES):
                yield (processor.processor_id, counter), getattr(counters, counter)
            for _, counter, _ in SESSION_TOTALS:
                yield (processor.processor_id, counter), getattr(counters.sessions, counter)
            for name, total in _exchanges(self._requests.counts_of(processor.processor_id)).items():
                yield (processor.processor_id, name), total
        for acceptor in self._sockets.acceptors:
            yield acceptor, acceptor.blocked_ns
        for pool in self._pools:
            yield pool, pool.idle_ns
        yield DEPLETED, self._sockets.memory_pool.depleted_ns

    def _rate(self, key: Hashable, total: int) -> float:
        """Return the growth of a count a second; 0 for a count that is newer than the last tick."""
        rate = self._rates.get(key)
        return 0.0 if rate is None else rate.per_second(total, self._now())

    def _monotonic(self, key: Hashable, total: int) -> int:
        """Return the largest total seen so far.

        A sum over connections that is read while one of them closes may lack it, and Prometheus takes a counter that
        falls for a restart.
        """
        total = self._reported[key] = max(total, self._reported.get(key, 0))
        return total

    def _share(self, key: Hashable, total_ns: int, threads: int = 1) -> float:
        """Return the share of time, from 0 to 1, that `threads` threads spent on what `total_ns` counts."""
        return min(max(self._rate(key, total_ns) / 1e9 / max(threads, 1), 0.0), 1.0)

    def _idle(self, processor: Processor) -> float:
        return self._share((processor.processor_id, "idle_ns"), processor.counters.idle_ns)

    def _of_planes(self) -> Iterator[Sample]:
        sockets = self._sockets
        channels = [sockets.data_plane_request_channel]
        if sockets.control_plane_request_channel is not None:
            channels.append(sockets.control_plane_request_channel)
        for channel in channels:
            yield from _of_channel(channel)
            is_control_plane = channel.metric_prefix == CONTROL_PLANE_PREFIX
            processors = [each for each in sockets.processors if _is_control_plane(each) == is_control_plane]
            idle = [self._idle(processor) for processor in processors]
            name = f"{channel.metric_prefix}NetworkProcessorAvgIdlePercent"
            description = "Share of time that network threads wait, 0 to 1, over half a minute"
            yield Sample(MBeanName(NETWORK, "SocketServer", name), sum(idle) / len(idle) if idle else 1.0, description)
            name = f"{channel.metric_prefix}ExpiredConnectionsKilledCount"
            expired = sum(processor.counters.sessions.expired for processor in processors)
            yield Sample(MBeanName(NETWORK, "SocketServer", name), expired, EXPIRED)

    def _of_processors(self) -> Iterator[Sample]:
        for processor in self._sockets.processors:
            number = str(processor.processor_id)
            name = MBeanName(NETWORK, "Processor", "IdlePercent", (("networkProcessor", number),))
            description = "Share of time that this network thread waits, 0 to 1, over half a minute"
            yield Sample(name, self._idle(processor), description)
            tags = (("listener", processor.listener.name), ("networkProcessor", number))
            yield from self._of_selector(processor, tags)
            yield from self._of_exchanges(processor, tags)
            yield from self._of_sessions(processor, tags)
            yield _attribute("connection-count", processor.connection_count, "Open connections", tags)
            for (software, version), count in islice(_clients(processor), MOST_CLIENTS):
                client = (("clientSoftwareName", software), ("clientSoftwareVersion", version))
                description = "Open connections by client software (KIP-511)"
                yield _attribute("connections", count, description, (*client, *tags))

    def _of_selector(self, processor: Processor, tags: Tags) -> Iterator[Sample]:
        counters = processor.counters
        number = processor.processor_id
        for name, counter, description in TOTALS:
            total = self._monotonic((number, counter), getattr(counters, counter))
            yield from self._rate_and_total(name, (number, counter), total, description, tags)
        for name, counter, what in TIMES:
            total_ns = getattr(counters, counter)
            yield _attribute(f"{name}-ratio", self._share((number, counter), total_ns), f"Share of time {what}", tags)
            description = f"Nanoseconds {what}: in all, or a turn"
            # Kafka has the old names of KIP-773 (`io-waittime-total`) beside the new ones, for dashboards made before.
            yield _attribute(f"{name}-time-ns-total", total_ns, description, tags)
            yield _attribute(f"{name}time-total", total_ns, f"Nanoseconds {what} (Kafka's old name)", tags)
            yield _attribute(f"{name}-time-ns-avg", total_ns / max(counters.select_calls, 1), description, tags)

    def _of_exchanges(self, processor: Processor, tags: Tags) -> Iterator[Sample]:
        number = processor.processor_id
        counts = self._requests.counts_of(number)
        for name, total in _exchanges(counts).items():
            yield from self._rate_and_total(name, (number, name), total, EXCHANGES[name], tags)
        sent = self._rate((number, "bytes_sent"), processor.counters.bytes_sent)
        answers = self._rate((number, "request"), counts.answers)
        mean = sent / answers if answers > 0 else 0.0
        yield _attribute("request-size-avg", mean, "Mean bytes of an answer, over half a minute", tags)
        largest = counts.largest_answer_bytes
        yield _attribute("request-size-max", largest, "Bytes of the largest answer since the start", tags)

    def _of_sessions(self, processor: Processor, tags: Tags) -> Iterator[Sample]:
        sessions = processor.counters.sessions
        for name, counter, description in SESSION_TOTALS:
            key, total = (processor.processor_id, counter), getattr(sessions, counter)
            yield from self._rate_and_total(name, key, total, description, tags)
        without, description = sessions.without_reauthentication, "Logins by SASL of clients that cannot log in again"
        yield _attribute("successful-authentication-no-reauth-total", without, description, tags)
        latency_ms = sessions.latency_total_ns / max(sessions.successful_reauthentications, 1) / 1e6
        description = "Mean milliseconds of a login on a live connection"
        yield _attribute("reauthentication-latency-avg", latency_ms, description, tags)
        description = "Milliseconds of the longest login on a live connection"
        yield _attribute("reauthentication-latency-max", sessions.latency_max_ns / 1e6, description, tags)
        yield _attribute("expired-connections-killed-count", sessions.expired, EXPIRED, tags)

    def _rate_and_total(self, name: str, key: Hashable, total: int, description: str, tags: Tags) -> Iterator[Sample]:
        yield _attribute(f"{name}-rate", self._rate(key, total), f"{description}, a second", tags)
        yield _attribute(f"{name}-total", total, description, tags)

    def _of_acceptors(self) -> Iterator[Sample]:
        for acceptor in self._sockets.acceptors:
            prefix = CONTROL_PLANE_PREFIX if _is_control_plane(acceptor) else ""
            tags = (("listener", acceptor.listener.name),)
            name = MBeanName(NETWORK, "Acceptor", f"{prefix}AcceptorBlockedPercent", tags)
            description = "Share of time that a listener's acceptor waits for room or for quotas"
            yield Sample(name, self._share(acceptor, acceptor.blocked_ns), description)

    def _of_handlers(self) -> Iterator[Sample]:
        for pool, prefix in zip(self._pools, ("", CONTROL_PLANE_PREFIX), strict=False):
            name = MBeanName(SERVER, "KafkaRequestHandlerPool", f"{prefix}RequestHandlerAvgIdlePercent")
            description = "Share of time that request handlers wait, 0 to 1"
            yield Sample(name, self._share(pool, pool.idle_ns, pool.size), description)

    def _of_memory(self) -> Iterator[Sample]:
        pool = self._sockets.memory_pool
        name = MBeanName(NETWORK, "SocketServer", "MemoryPoolAvailable")
        yield Sample(name, pool.available_memory, "Bytes left of queued.max.request.bytes")
        name = MBeanName(NETWORK, "SocketServer", "MemoryPoolUsed")
        yield Sample(name, pool.size - pool.available_memory, "Bytes of queued.max.request.bytes in use")
        depleted_ms = pool.depleted_ns // 1_000_000
        yield _attribute("MemoryPoolDepletedTimeTotal", depleted_ms, "Milliseconds without memory for requests", ())
        share = self._share(DEPLETED, pool.depleted_ns)
        yield _attribute("MemoryPoolAvgDepletedPercent", share, "Share of time without memory for requests", ())

    def _of_connections(self) -> Iterator[Sample]:
        for rate in self._sockets.connection_quotas.rate_samples():
            yield _attribute(rate.name, rate.value, rate.description, rate.tags)


def _exchanges(counts: ProcessorCounts) -> dict[str, int]:
    """Return Kafka's counts of frames. Its Selector is the clients' as well: what it sends is called a request."""
    # Counted by request, and not by system call, which would cost every call of one.
    return {"request": counts.answers, "response": counts.requests, "network-io": counts.answers + counts.requests}


def _of_channel(channel: RequestChannel) -> Iterator[Sample]:
    kind, prefix = "RequestChannel", channel.metric_prefix
    name = MBeanName(NETWORK, kind, f"{prefix}RequestQueueSize")
    yield Sample(name, channel.request_queue_size, "Requests that wait for a handler")
    sizes = channel.response_queue_sizes
    name, description = MBeanName(NETWORK, kind, f"{prefix}ResponseQueueSize"), "Answers that wait for a network thread"
    yield Sample(name, sum(sizes.values()), description)
    for number, size in sizes.items():
        yield Sample(name._replace(tags=(("processor", str(number)),)), size, description)


def _is_control_plane(of: Processor | Acceptor) -> bool:
    return of.listener.plane == CONTROL_PLANE


def _attribute(name: str, value: float, description: str, tags: Tags) -> Sample:
    bean = MBeanName(SERVER, SOCKET_METRICS, name, tags, is_attribute=True)
    return Sample(bean, value, description, is_counter=name.endswith("-total"))


def _clients(processor: Processor) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the client software that a Processor's connections name (KIP-511), the commonest first."""
    contexts = processor.connection_contexts()
    software = Counter((each.client_software_name, each.client_software_version) for each in contexts)
    yield from software.most_common()


def register_network_metrics(registry: MetricsRegistry, metrics: NetworkMetrics, requests: RequestMetrics) -> None:
    """Register the metrics of this layer."""
    registry.family(metrics)
    registry.family(requests)
