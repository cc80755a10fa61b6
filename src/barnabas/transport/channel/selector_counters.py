"""The counters of a Selector since its start, for Kafka's sensors of these names, and those of its clients' sessions.

Written by the Selector's thread; metrics read them from other threads, perhaps a moment late. No lock. Kafka measures
its sensors in the hot path; these are plain numbers, from which rates are made when metrics are asked for.

Kafka: Selector.SelectorMetrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.transport.channel.open_channels import OpenChannels

if TYPE_CHECKING:
    from mypy_extensions import i64


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
