"""What a Selector counts since its start, for Kafka's sensors of these names.

Written by the Selector's thread; metrics read them from others, perhaps a moment late. No lock. Kafka:
Selector.SelectorMetrics, whose sensors are measured in the hot path; these are plain numbers, from which rates are made
when somebody asks.
"""

from __future__ import annotations


class SelectorCounters:
    """The base of Selector, which adds bytes received and sent: those are summed over its channels."""

    def __init__(self) -> None:
        self.idle_ns = 0
        """Time spent in the Poller (io-wait-time-ns), for NetworkProcessorAvgIdlePercent."""
        self.io_ns = 0
        """Time spent receiving and, where `poll` does it, sending (io-time-ns)."""
        self.select_calls = 0
        """`select-total`."""
        self.connections_created = 0
        """`connection-creation-total`: connects of ours that succeeded, and accepted connections."""
        self.connections_closed = 0
        """`connection-close-total`."""
        self.successful_authentications = 0
        """`successful-authentication-total`."""
        self.failed_authentications = 0
        """`failed-authentication-total`."""
        self.connections_expired = 0
        """Connections that were idle for too long."""
        self.given_up_for_memory = 0
        """Connections closed because others needed the memory they held (ours)."""
