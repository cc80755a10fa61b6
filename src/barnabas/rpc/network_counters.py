"""The counters of one NetworkClient: requests, answers and latencies by node, and marks of its Selector's totals.

Written by the client's thread: once for each request and answer, and every 30 s by `roll`. Other threads read, perhaps
a moment late: `nodes` is replaced and never changed, and the past of each counter is immutable. No lock.
Kafka: Selector.SelectorMetrics, whose sensors are measured with each request.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.metrics.meter import MARKS, ROLL_MS, RolledMeter, span_ms
from barnabas.transport.channel.open_channels import SelectorCounters


class NodeCounters:
    """The requests to one node: `sent` and `received` have sizes in bytes, `latencies` milliseconds.

    `latencies` has what `record_latency` was given: as in Kafka, the times of Produce and of Fetch.
    """

    __slots__ = ("latencies", "received", "sent")

    def __init__(self, now_ms: int) -> None:
        self.sent = RolledMeter(now_ms)
        self.received = RolledMeter(now_ms)
        self.latencies = RolledMeter(now_ms)

    def roll(self, now_ms: int) -> None:
        """Begin the next part of the window."""
        self.sent.roll(now_ms)
        self.received.roll(now_ms)
        self.latencies.roll(now_ms)


class SelectorTotals(NamedTuple):
    """The totals of a Selector at a moment; the fields are those of SelectorCounters and SessionCounters."""

    connections_created: int = 0
    connections_closed: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    select_calls: int = 0
    idle_ns: int = 0
    io_ns: int = 0
    successful_authentications: int = 0
    failed_authentications: int = 0
    successful_reauthentications: int = 0
    failed_reauthentications: int = 0
    reauthentication_ns: int = 0
    without_reauthentication: int = 0

    @classmethod
    def of(cls, counters: SelectorCounters) -> SelectorTotals:
        """Return the totals now."""
        sessions = counters.sessions
        return cls(
            counters.connections_created,
            counters.connections_closed,
            counters.bytes_sent,
            counters.bytes_received,
            counters.select_calls,
            counters.idle_ns,
            counters.io_ns,
            counters.successful_authentications,
            counters.failed_authentications,
            sessions.successful_reauthentications,
            sessions.failed_reauthentications,
            sessions.latency_total_ns,
            sessions.without_reauthentication,
        )


class _Mark(NamedTuple):
    time_ms: int
    totals: SelectorTotals


class SelectorReading(NamedTuple):
    """The totals of a Selector since its start, those of the window alone, the window's length, and what is now."""

    totals: SelectorTotals
    recent: SelectorTotals
    span_ms: int
    slowest_reauthentication_ns: int
    connections_open: int


class NetworkCounters:
    """The counters of one client, from `now_ms` on."""

    def __init__(self, selector: SelectorCounters, now_ms: int) -> None:
        self._selector = selector
        self._marks: tuple[_Mark, ...] = (_Mark(now_ms, SelectorTotals()),)
        self.nodes: dict[int, NodeCounters] = {}
        """By node id. A dictionary that is never changed, only replaced, so that other threads may go through it."""
        self.next_roll_ms = now_ms + ROLL_MS

    # -- the client's thread

    def add_node(self, node_id: int, now_ms: int) -> NodeCounters:
        """Make the counters of a node that gets its first request."""
        made = NodeCounters(now_ms)
        self.nodes = {**self.nodes, node_id: made}
        return made

    def roll(self, now_ms: int) -> None:
        """Begin the next part of the window."""
        self.next_roll_ms = now_ms + ROLL_MS
        self._marks = (*self._marks, _Mark(now_ms, SelectorTotals.of(self._selector)))[-MARKS:]
        for counters in self.nodes.values():
            counters.roll(now_ms)

    # -- any thread

    def read_selector(self, now_ms: int) -> SelectorReading:
        """Return the totals of the Selector, and their growth."""
        mark = self._marks[0]
        totals = SelectorTotals.of(self._selector)
        recent = SelectorTotals(*(now - before for now, before in zip(totals, mark.totals, strict=True)))
        return SelectorReading(
            totals,
            recent,
            span_ms(mark.time_ms, now_ms),
            self._selector.sessions.latency_max_ns,
            self._selector.connections_open,
        )
