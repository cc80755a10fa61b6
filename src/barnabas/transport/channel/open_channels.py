"""The open channels of one Selector, by id, descriptor and idle time, the ways in which one ends, and all counters.

Owned by the Selector's thread; other threads may read the totals, perhaps a moment late. No lock.

`remove` closes a channel because the layer above wants that: nothing is reported. `fail` closes a channel that is lost:
the end of this poll, or of the next one, reports it. Between open and closed a channel may be *closing*
(`close_when_sent` of `ChannelIO`): it is no longer read, and closes when its last answer has left.

Kafka: Selector (channels, closingChannels, close), Selector.IdleExpiryManager, Selector.SelectorMetrics.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from typing import TYPE_CHECKING

from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.poller import Poller

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

SWEEP_AT_LEAST = 64
"""The number of closed channels that may stay in the heap; for fewer a sweep is not worth it."""


class PollResults:
    """The reports of a Selector about its channels, besides received frames; each poll empties these collections.

    The Selector's parts fill them, also between two polls, and the Selector shows them as its own attributes.
    """

    __slots__ = ("completed_sends", "connected", "disconnected", "has_any", "muted_readable")

    def __init__(self) -> None:
        self.has_any = False
        """Whether one of the collections may have something, which is seldom: a poll tests this alone."""
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self.completed_sends: list[KafkaChannel] = []
        self.muted_readable: list[KafkaChannel] = []


class IdleExpiry:
    """The channels of a Selector by the time of their last activity, in an order that costs no work per request.

    Kafka moves a channel to the end of a map at every event. Here an event only stores its time in the channel. A heap
    holds, for each channel, the time of its last event as it was when the heap looked. That time is never later than
    the true one, so the oldest channel is found by correcting the top of the heap until its entry is true. A closed
    channel stays in the heap until closed ones are the majority; then all of them are taken out, so that short-lived
    connections cost no memory.
    """

    __slots__ = ("_closed", "_heap", "_max_idle_ns", "_order", "next_check_ns")

    def __init__(self, max_idle_ms: float) -> None:
        """`max_idle_ms` below zero: channels never expire."""
        self._max_idle_ns: i64 = int(max_idle_ms * 1_000_000)
        self._heap: list[tuple[int, int, KafkaChannel]] = []
        self._closed = 0
        self._order = itertools.count()  # equal times must not compare channels
        self.next_check_ns: i64 = 0 if max_idle_ms >= 0 else 1 << 62
        """The time before which no channel can have expired: one comparison per poll."""

    def add(self, channel: KafkaChannel) -> None:
        """Watch the idleness of a new channel."""
        heapq.heappush(self._heap, (channel.last_active_ns, next(self._order), channel))

    def closed(self) -> None:
        """Count a watched channel that was closed. The time is constant per call, on average."""
        self._closed += 1
        if self._closed > SWEEP_AT_LEAST and self._closed * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].closed]
            heapq.heapify(self._heap)
            self._closed = 0

    def oldest(self) -> KafkaChannel | None:
        """Return the open channel that has been idle longest."""
        heap = self._heap
        while heap:
            seen_ns, _, channel = heap[0]
            if channel.closed:
                heapq.heappop(heap)
                self._closed -= 1
            elif channel.last_active_ns > seen_ns:
                heapq.heapreplace(heap, (channel.last_active_ns, next(self._order), channel))
            else:
                return channel
        return None

    def expired(self, now_ns: int) -> KafkaChannel | None:
        """Return the channel idle longest if its time is over; the caller closes that channel and calls again."""
        channel = self.oldest()
        if channel is None:
            self.next_check_ns = now_ns + self._max_idle_ns
            return None
        due_ns = channel.last_active_ns + self._max_idle_ns
        if now_ns > due_ns:
            return channel
        self.next_check_ns = due_ns
        return None


class OpenChannels:
    """The channels from `add` until each is closed."""

    __slots__ = (
        "_closed_received",
        "_closed_sent",
        "_closing",
        "_idle_expiry",
        "_poller",
        "by_fd",
        "by_id",
        "closed_count",
        "has_reports",
        "to_report",
    )

    def __init__(self, poller: Poller, idle_expiry: IdleExpiry) -> None:
        self._poller = poller
        self._idle_expiry = idle_expiry
        self._closing: dict[KafkaChannel, None] = {}  # in the order in which they began
        self._closed_received = 0
        self._closed_sent = 0
        self.by_id: dict[str, KafkaChannel] = {}
        self.by_fd: dict[int, KafkaChannel] = {}
        self.closed_count = 0
        """The number of channels closed since the start."""
        self.has_reports = False
        """Whether `to_report` has something: a poll tests this alone."""
        self.to_report: list[KafkaChannel] = []
        """Channels that were lost, or connected at once, since the last report. While there are any, a poll must not
        wait."""

    def add(self, channel: KafkaChannel) -> None:
        """Add a new channel and watch its descriptor and its idleness. Raises OSError when the Poller refuses it."""
        self._poller.register(channel.fd)
        self.by_id[channel.connection_id] = channel
        self.by_fd[channel.fd] = channel
        self._idle_expiry.add(channel)

    def refuse_duplicate(self, connection_id: str) -> None:
        """Check that an id is free. Raises ValueError when the connection id is in use."""
        if connection_id in self.by_id:
            raise ValueError(f"There is already a connection for id {connection_id}")

    def begin_closing(self, channel: KafkaChannel) -> None:
        """Let a channel close as soon as its last answer has left."""
        self._closing[channel] = None

    def is_closing(self, channel: KafkaChannel) -> bool:
        """Return whether a channel closes as soon as its last answer has left."""
        return channel in self._closing

    def fail(self, channel: KafkaChannel, state: ChannelState, error: Exception | None = None) -> None:
        """Close a channel that is lost, in the state that is to be reported."""
        if error is not None:
            logger.debug("Connection %s lost: %s", channel.connection_id, error)
        self.remove(channel, state)
        self.report(channel)

    def report(self, channel: KafkaChannel) -> None:
        """Have the end of this poll, or of the next one, report a channel."""
        self.to_report.append(channel)
        self.has_reports = True

    def remove(self, channel: KafkaChannel, state: ChannelState = ChannelState.LOCAL_CLOSE) -> None:
        """Close a channel without a report."""
        # Before the descriptor is closed: a new connection may get its number at once.
        self._poller.unregister(channel.fd)
        del self.by_id[channel.connection_id]
        del self.by_fd[channel.fd]
        channel.close(state)
        self._closed_received += channel.reader.received
        self._closed_sent += channel.outgoing.sent
        self.closed_count += 1
        self._closing.pop(channel, None)
        self._idle_expiry.closed()

    def take_reports(self) -> list[KafkaChannel]:
        """Return the channels to report, and forget them."""
        reports, self.to_report = self.to_report, []
        self.has_reports = False
        return reports

    def was_lost(self, connection_id: str) -> bool:
        """Return whether a lost channel of this id waits for its report."""
        return any(channel.closed and channel.connection_id == connection_id for channel in self.to_report)

    def lowest_priority(self) -> KafkaChannel | None:
        """Return the channel to give up first: one that is closing, else the one that has been idle longest."""
        return next(iter(self._closing), None) or self._idle_expiry.oldest()

    def close_idle(self, now_ns: int) -> int:
        """Close the channels that have been idle for too long. Returns the time before which no other can expire."""
        expiry = self._idle_expiry
        while now_ns >= expiry.next_check_ns and (channel := expiry.expired(now_ns)) is not None:
            logger.debug("Closing idle connection %s", channel.connection_id)
            self.fail(channel, ChannelState.EXPIRED)
        return expiry.next_check_ns

    def close_all(self) -> None:
        """Close every channel without a report, and the Poller."""
        for channel in self.all:
            self.remove(channel)
        self._poller.close()

    @property
    def all(self) -> list[KafkaChannel]:
        """The open channels, in a list that does not change when one of them closes."""
        return list(self.by_id.values())

    @property
    def bytes_received(self) -> int:
        """The bytes received in all, on closed channels too."""
        return self._closed_received + sum(channel.reader.received for channel in self.all)

    @property
    def bytes_sent(self) -> int:
        """The bytes sent in all, on closed channels too."""
        return self._closed_sent + sum(channel.outgoing.sent for channel in self.all)


# -- counters

# Written by the Selector's thread; metrics read them from other threads, perhaps a moment late. Kafka measures its
# sensors in the hot path; these are plain numbers, from which rates are made when metrics are asked for.


class SessionCounters:
    """The counters of logins on live connections (KIP-368), and of sessions that have expired. Times in nanoseconds."""

    __slots__ = (
        "expired",
        "failed_reauthentications",
        "latency_max_ns",
        "latency_total_ns",
        "successful_reauthentications",
        "without_reauthentication",
    )

    def __init__(self) -> None:
        self.successful_reauthentications = 0
        """`successful-reauthentication-total`."""
        self.failed_reauthentications = 0
        """`failed-reauthentication-total`."""
        self.without_reauthentication = 0
        """`successful-authentication-no-reauth-total`: logins of clients that are too old to log in again."""
        self.expired = 0
        """`expired-connections-killed-count`: connections that sent a request after the end of their session."""
        self.latency_total_ns = 0
        self.latency_max_ns = 0

    def reauthenticated(self, latency_ns: int) -> None:
        """Count a login that has succeeded on a live connection, and the time that it took."""
        self.successful_reauthentications += 1
        self.latency_total_ns += latency_ns
        self.latency_max_ns = max(self.latency_max_ns, latency_ns)


class SelectorCounters:
    """The counters of one Selector, and the totals that are summed over its channels."""

    __slots__ = (
        "_channels",
        "connections_created",
        "failed_authentications",
        "idle_ns",
        "io_ns",
        "select_calls",
        "sessions",
        "successful_authentications",
    )

    def __init__(self, channels: OpenChannels) -> None:
        self._channels = channels
        self.idle_ns: i64 = 0
        """The time spent in the Poller (io-wait-time-ns), for NetworkProcessorAvgIdlePercent."""
        self.io_ns: i64 = 0
        """The time spent receiving and, when `poll` sends, sending (io-time-ns)."""
        self.select_calls: i64 = 0
        """`select-total`."""
        self.connections_created = 0
        """`connection-creation-total`: connects begun here that succeeded, and accepted connections."""
        self.successful_authentications = 0
        """`successful-authentication-total`."""
        self.failed_authentications = 0
        """`failed-authentication-total`."""
        self.sessions = SessionCounters()
        """The counters of clients that log in again."""

    @property
    def connections_open(self) -> int:
        """`connection-count`: with those that are being made."""
        return len(self._channels.by_id)

    @property
    def connections_closed(self) -> int:
        """`connection-close-total`."""
        return self._channels.closed_count

    @property
    def bytes_received(self) -> int:
        """`incoming-byte-total`."""
        return self._channels.bytes_received

    @property
    def bytes_sent(self) -> int:
        """`outgoing-byte-total`."""
        return self._channels.bytes_sent
