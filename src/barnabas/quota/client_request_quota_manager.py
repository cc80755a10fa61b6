"""The thread time that each client used: percent of one thread, request handler and network thread together.

Made by `broker`, charged by `api.throttle`; threads and locks as its base class. `_exempt_lock` guards the rate of the
time that is charged to no client.

Kafka: kafka.server.ClientRequestQuotaManager.
"""

from __future__ import annotations

import threading
from typing import Final

from barnabas.metrics.rate import Rate
from barnabas.quota.client_quota_manager import ClientQuotaManager, QuotaWindows
from barnabas.quota.quota_entity import QuotaType

PERCENT_OF_A_SECOND: Final = 100 / 1_000_000_000
"""A nanosecond of a thread, as percent of a second."""


class ClientRequestQuotaManager(ClientQuotaManager):
    """The quota of thread time, in nanoseconds. No client waits for longer than one sample of the window."""

    def __init__(self, windows: QuotaWindows) -> None:
        super().__init__(QuotaType.REQUEST, windows, "request-time")
        self._max_throttle_time_ms = windows.quota.sample_ms
        self._exempt_lock = threading.Lock()
        self._exempt = Rate(windows.statistics)

    def record_time_and_get_throttle_time_ms(self, user: str, client_id: str, time_ns: int, now_ms: int) -> int:
        """Count the time that a client's request took, and return how long its connection is to be muted."""
        wait_ms = self.record_and_get_throttle_time_ms(user, client_id, time_ns * PERCENT_OF_A_SECOND, now_ms)
        # As in Kafka: one sample is the longest wait, although the rate may still be above the quota after it.
        return min(wait_ms, self._max_throttle_time_ms)

    def record_network_time(self, user: str, client_id: str, time_ns: int, now_ms: int) -> None:
        """Count the time of receiving the request and sending its answer, which is known only afterwards."""
        self.record_no_throttle(user, client_id, time_ns * PERCENT_OF_A_SECOND, now_ms)

    def record_exempt(self, time_ns: int, now_ms: int) -> None:
        """Count time that is charged to no client."""
        with self._exempt_lock:
            self._exempt.record(time_ns * PERCENT_OF_A_SECOND, now_ms)

    def exempt_request_time(self, now_ms: int) -> float:
        """Return the value of the gauge `exempt-request-time`."""
        with self._exempt_lock:
            return self._exempt.measure(now_ms)
