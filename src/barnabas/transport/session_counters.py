"""The counters of a Selector about sessions: logins on live connections (KIP-368), and sessions that have expired.

Written by the Selector's thread; metrics read them from other threads, perhaps a moment late. No lock. Kafka:
Selector.SelectorMetrics, and expired-connections-killed-count of a Processor.
"""

from __future__ import annotations


class SessionCounters:
    """The counters of one Selector since its start. Times in nanoseconds."""

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
