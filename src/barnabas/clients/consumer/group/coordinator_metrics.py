"""What a consumer measures of its group, by Kafka's names, in the group `consumer-coordinator-metrics`.

Filled by the CoordinatorChannel and the sessions of both protocols, on either thread of the consumer, under the
channel's lock; the times of the listener by `ListenerCalls`, on the consumer's thread alone. All of it is rare: a few
values for each commit, heartbeat and rebalance. Kafka: AbstractCoordinator.GroupCoordinatorMetrics,
ConsumerCoordinatorMetrics, RebalanceCallbackMetricsManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from barnabas.clients.client_metrics import ClientMeter, Values
from barnabas.protocol.messages.classic_groups import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest

GROUP = "consumer-coordinator-metrics"
_SECONDS_PER_HOUR = 3_600
_HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)
_COUNTED_WHEN_REFUSED = (*_HEARTBEATS, OffsetCommitRequest)
"""The requests whose times count even if the answer is an error. A join or a sync counts when it has succeeded."""


class ListenerCall(Enum):
    """A call of the rebalance listener, by its name in the metrics."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class _Timed:
    """Requests of one kind, with the times until they were answered."""

    __slots__ = ("count", "latencies")

    def __init__(self) -> None:
        self.count = ClientMeter()
        self.latencies = Values()

    def record(self, latency_ms: int, now_ms: int) -> None:
        self.count.record(1, now_ms)
        self.latencies.record(latency_ms, now_ms)

    def rate_and_total(self, name: str, now_ms: int) -> Iterator[tuple[str, float]]:
        yield f"{name}-rate", self.count.rate(now_ms)
        yield f"{name}-total", self.count.total

    def average_and_maximum(self, name: str, now_ms: int) -> Iterator[tuple[str, float]]:
        yield f"{name}-avg", self.latencies.average(now_ms)
        yield f"{name}-max", self.latencies.extreme(now_ms)


class CoordinatorMetrics:
    """The metrics of one member. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._heartbeats, self._joins, self._syncs, self._commits = _Timed(), _Timed(), _Timed(), _Timed()
        self._by_request: dict[type[Message], _Timed] = {
            JoinGroupRequest: self._joins,
            SyncGroupRequest: self._syncs,
            OffsetCommitRequest: self._commits,
            **dict.fromkeys(_HEARTBEATS, self._heartbeats),
        }
        self._rebalances = _Timed()
        self._rebalance_ms = 0
        self._failed_rebalances = ClientMeter()
        self._rebalance_began_ms: int | None = None
        self._rebalance_ended_ms: int | None = None
        self._heartbeat_sent_ms: int | None = None
        self._listener_calls = {call: Values() for call in ListenerCall}

    # -- under the channel's lock

    def sent(self, request: type[Message], now_ms: int) -> None:
        """Note that a request leaves."""
        if request in _HEARTBEATS:
            self._heartbeat_sent_ms = now_ms

    def answered(self, request: type[Message], latency_ms: int, now_ms: int, *, has_failed: bool) -> None:
        """Count an answer, which may say that the request has failed."""
        timed = self._by_request.get(request)
        if timed is not None and (not has_failed or request in _COUNTED_WHEN_REFUSED):
            timed.record(latency_ms, now_ms)

    def rebalance_began(self, now_ms: int) -> None:
        """Note the begin of a rebalance, unless a failed attempt has begun it already."""
        if self._rebalance_began_ms is None:
            self._rebalance_began_ms = now_ms

    def rebalance_failed(self, now_ms: int) -> None:
        """Count an attempt to join that has failed; the rebalance goes on with the next one."""
        self._failed_rebalances.record(1, now_ms)

    def rebalance_completed(self, now_ms: int) -> None:
        """Count a rebalance that has begun."""
        if self._rebalance_began_ms is None:
            return
        latency_ms = now_ms - self._rebalance_began_ms
        self._rebalances.record(latency_ms, now_ms)
        self._rebalance_ms += latency_ms
        self._rebalance_began_ms, self._rebalance_ended_ms = None, now_ms

    def measure(self, now_ms: int, assigned_partitions: int) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each metric. Seconds since what has never happened are -1, as in Kafka."""
        yield "assigned-partitions", assigned_partitions
        yield from self._commits.average_and_maximum("commit-latency", now_ms)
        yield from self._commits.rate_and_total("commit", now_ms)
        yield "heartbeat-response-time-max", self._heartbeats.latencies.extreme(now_ms)
        yield from self._heartbeats.rate_and_total("heartbeat", now_ms)
        yield "last-heartbeat-seconds-ago", _seconds_since(self._heartbeat_sent_ms, now_ms)
        for name, timed in (("join", self._joins), ("sync", self._syncs)):
            yield from timed.average_and_maximum(f"{name}-time", now_ms)
            yield from timed.rate_and_total(name, now_ms)
        yield from self._rebalances.average_and_maximum("rebalance-latency", now_ms)
        yield "rebalance-latency-total", self._rebalance_ms
        yield "last-rebalance-seconds-ago", _seconds_since(self._rebalance_ended_ms, now_ms)
        for name, meter in (("rebalance", self._rebalances.count), ("failed-rebalance", self._failed_rebalances)):
            yield f"{name}-total", meter.total
            yield f"{name}-rate-per-hour", meter.rate(now_ms) * _SECONDS_PER_HOUR
        for call, times in self._listener_calls.items():
            yield f"partition-{call.value}-latency-avg", times.average(now_ms)
            yield f"partition-{call.value}-latency-max", times.extreme(now_ms)

    # -- the consumer's thread

    def listener_called(self, call: ListenerCall, latency_ms: int, now_ms: int) -> None:
        """Take note of the time of a listener that has not raised."""
        self._listener_calls[call].record(latency_ms, now_ms)


def _seconds_since(then_ms: int | None, now_ms: int) -> int:
    return -1 if then_ms is None else (now_ms - then_ms) // 1_000
