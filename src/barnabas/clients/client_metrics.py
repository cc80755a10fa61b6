"""The names and statistics of the clients' metrics, as Kafka's clients have them, and the metrics of connections.

The statistics are used by the parts of a client that measure, each under its own lock or on its own thread;
milliseconds come with each call. A statistic covers two samples of 30 s, the newest incomplete.
Kafka: org.apache.kafka.common.MetricName, Meter, Max, Min, Selector.SelectorMetrics.

`network_metrics` has no state: `NetworkCounters` measures, and the sums, rates and averages are made here.

    producer-metrics         connection-count, request-total, io-time-ns-avg, ...
    producer-node-metrics    request-latency-avg{node-id=node-1}, ...
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.metrics.meter import RolledMeter
from barnabas.metrics.rate import Average, Rate, SampleWindow
from barnabas.rpc.network_counters import NetworkCounters, NodeCounters, SelectorReading

# The defaults of Kafka's metrics.num.samples and metrics.sample.window.ms.
WINDOW = SampleWindow(samples=2, sample_ms=30_000)


class MetricName(NamedTuple):
    """A metric's name with its group and tags: client-id, and topic or partition where it is about one."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


def counted(measured: dict[MetricName, float], client_id: str) -> dict[MetricName, float]:
    """Return a client's metrics with their number, itself included."""
    count = MetricName("count", "kafka-metrics-count", (("client-id", client_id),))
    return {**measured, count: len(measured) + 1}


class ClientMeter:
    """A total since the start, and its rate a second."""

    __slots__ = ("_rate", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._rate = Rate(WINDOW)

    def record(self, value: float, now_ms: int) -> None:
        """Add to the total."""
        self.total += value
        self._rate.record(value, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the units a second."""
        return self._rate.measure(now_ms)


class _Sample:
    """The extreme of one part of the window."""

    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, value: float, now_ms: int) -> None:
        self.value = value
        self.start_ms = self.last_event_ms = now_ms


class Extreme:
    """The largest or smallest value of the window. `choose`: max or min."""

    __slots__ = ("_choose", "_samples")

    def __init__(self, choose: Callable[[float, float], float]) -> None:
        self._choose = choose
        # One more than the window has: the oldest one reaches into the window from before it.
        self._samples: deque[_Sample] = deque(maxlen=WINDOW.samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Take note of a value."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= WINDOW.sample_ms:
            samples.append(_Sample(value, now_ms))
            return
        sample = samples[-1]
        sample.value = self._choose(sample.value, value)
        sample.last_event_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the extreme, or not a number without a value."""
        values = [each.value for each in self._samples if now_ms - each.last_event_ms < WINDOW.duration_ms]
        result = values[0] if values else math.nan
        for value in values:
            result = self._choose(result, value)
        return result


class Values:
    """The mean of values, their extreme, and the last one. `choose`: max or min."""

    __slots__ = ("_average", "_extreme", "last")

    def __init__(self, choose: Callable[[float, float], float] = max) -> None:
        self.last = math.nan
        self._average = Average(WINDOW)
        self._extreme = Extreme(choose)

    def record(self, value: float, now_ms: int) -> None:
        """Take note of a value."""
        self.last = value
        self._average.record(value, now_ms)
        self._extreme.record(value, now_ms)

    def average(self, now_ms: int) -> float:
        """Return the mean, or not a number without a value."""
        return self._average.measure(now_ms)

    def extreme(self, now_ms: int) -> float:
        """Return the extreme, or not a number without a value."""
        return self._extreme.measure(now_ms)


_MAX_NODE_ID = 2**31 - 1
_NANOSECONDS_PER_MILLISECOND = 1e6


class MeasuredNetwork(NamedTuple):
    """The network client of a client, or its second one, which talks only to the coordinator of a consumer's group."""

    counters: NetworkCounters
    is_coordinators: bool = False

    def node_tag(self, node_id: int) -> str:
        """Return a node as Kafka's clients write it: a coordinator has an id of its own beside the broker's."""
        return f"node-{_MAX_NODE_ID - node_id if self.is_coordinators and node_id >= 0 else node_id}"


def network_metrics(
    client: str, client_id: str, networks: Sequence[MeasuredNetwork], now_ms: int
) -> dict[MetricName, float]:
    """Return the metrics of the groups `<client>-metrics` and `<client>-node-metrics`.

    The first of `networks` is the client's own. The times of `select` and of I/O are its alone; all else is summed.
    """
    tags = (("client-id", client_id),)
    readings = [each.counters.read_selector(now_ms) for each in networks]
    nodes: dict[str, list[NodeCounters]] = {}
    for network in networks:
        for node_id, counters in network.counters.nodes.items():
            nodes.setdefault(network.node_tag(node_id), []).append(counters)
    of_client = (
        *_connections(readings),
        *_logins(readings),
        *_bytes(readings),
        *_requests([each for found in nodes.values() for each in found], now_ms),
        *_io_times(readings[0]),
    )
    measured = {MetricName(name, f"{client}-metrics", tags): value for name, value in of_client}
    for node, found in nodes.items():
        node_tags = (*tags, ("node-id", node))
        for name, value in (*_requests_of_node(found, now_ms), *_latencies(found)):
            measured[MetricName(name, f"{client}-node-metrics", node_tags)] = value
    return measured


def _total_and_rate(name: str, readings: Sequence[SelectorReading], field: str) -> Iterator[tuple[str, float]]:
    yield f"{name}-total", _sum(getattr(each.totals, field) for each in readings)
    yield f"{name}-rate", _sum(getattr(each.recent, field) * 1_000 / each.span_ms for each in readings)


def _connections(readings: Sequence[SelectorReading]) -> Iterator[tuple[str, float]]:
    yield "connection-count", sum(each.connections_open for each in readings)
    yield from _total_and_rate("connection-creation", readings, "connections_created")
    yield from _total_and_rate("connection-close", readings, "connections_closed")


def _logins(readings: Sequence[SelectorReading]) -> Iterator[tuple[str, float]]:
    for name in ("authentication", "reauthentication"):
        for outcome in ("successful", "failed"):
            yield from _total_and_rate(f"{outcome}-{name}", readings, f"{outcome}_{name}s")
    yield (
        "successful-authentication-no-reauth-total",
        sum(each.totals.without_reauthentication for each in readings),
    )
    logins = sum(each.recent.successful_reauthentications for each in readings)
    took_ns = sum(each.recent.reauthentication_ns for each in readings)
    yield "reauthentication-latency-avg", took_ns / logins / _NANOSECONDS_PER_MILLISECOND if logins else math.nan
    slowest_ns = max(each.slowest_reauthentication_ns for each in readings)
    yield "reauthentication-latency-max", slowest_ns / _NANOSECONDS_PER_MILLISECOND if slowest_ns else math.nan


def _bytes(readings: Sequence[SelectorReading]) -> Iterator[tuple[str, float]]:
    yield from _total_and_rate("outgoing-byte", readings, "bytes_sent")
    yield from _total_and_rate("incoming-byte", readings, "bytes_received")


def _requests(nodes: Sequence[NodeCounters], now_ms: int) -> Iterator[tuple[str, float]]:
    """Yield what a client and a node both have, without the bytes: those of a client have the logins' bytes too."""
    sent = [each.sent for each in nodes]
    received = [each.received for each in nodes]
    request_rate = _sum(each.count_rate(now_ms) for each in sent)
    response_rate = _sum(each.count_rate(now_ms) for each in received)
    requests, responses = _sum(each.count for each in sent), _sum(each.count for each in received)
    yield "request-rate", request_rate
    yield "request-total", requests
    yield "response-rate", response_rate
    yield "response-total", responses
    yield "network-io-rate", request_rate + response_rate
    yield "network-io-total", requests + responses
    yield "request-size-avg", _average(sent)
    yield "request-size-max", _largest(sent)


def _requests_of_node(nodes: Sequence[NodeCounters], now_ms: int) -> Iterator[tuple[str, float]]:
    yield from (each for each in _requests(nodes, now_ms) if not each[0].startswith("network-io"))
    for name, meters in (
        ("outgoing-byte", [each.sent for each in nodes]),
        ("incoming-byte", [each.received for each in nodes]),
    ):
        yield f"{name}-rate", _sum(each.rate(now_ms) for each in meters)
        yield f"{name}-total", _sum(each.total for each in meters)


def _latencies(nodes: Sequence[NodeCounters]) -> Iterator[tuple[str, float]]:
    meters = [each.latencies for each in nodes]
    yield "request-latency-avg", _average(meters)
    yield "request-latency-max", _largest(meters)


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)


def _average(meters: Sequence[RolledMeter]) -> float:
    recent = [each.recent() for each in meters]
    count = sum(each.values for each in recent)
    return sum(each.total for each in recent) / count if count else math.nan


def _largest(meters: Sequence[RolledMeter]) -> float:
    return max((each.maximum() for each in meters if not math.isnan(each.maximum())), default=math.nan)


def _io_times(reading: SelectorReading) -> Iterator[tuple[str, float]]:
    yield from _total_and_rate("select", [reading], "select_calls")
    span_ns = reading.span_ms * _NANOSECONDS_PER_MILLISECOND
    selects = reading.recent.select_calls
    for name, total_ns, recent_ns in (
        ("io-wait", reading.totals.idle_ns, reading.recent.idle_ns),
        ("io", reading.totals.io_ns, reading.recent.io_ns),
    ):
        yield f"{name}-time-ns-total", total_ns
        yield f"{name}-time-ns-avg", recent_ns / selects if selects else math.nan
        yield f"{name}-ratio", recent_ns / span_ns
