"""The limit of the bytes a second that this broker sends to followers, or fetches from leaders, for throttled replicas,
and of those it copies between its log directories.

Made by `broker`, one for each way. Recorded and asked by request handlers and fetcher threads, limited by the
thread that reads changed settings; `_lock` guards the rate, and no other lock is taken under it. Time is monotonic,
unlike Kafka's. Kafka: ReplicationQuotaManager.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from barnabas.config.config_key import LONG_MAX
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.metrics.rate import SampleWindow, SimpleRate
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

UNLIMITED: Final = LONG_MAX
GROUP: Final = "kafka.server"


class ReplicationQuota:
    """A rate of bytes, and its limit. Bytes are counted whether or not the limit is exceeded."""

    def __init__(self, window: SampleWindow, clock: Clock) -> None:
        self._nanoseconds = clock.nanoseconds
        self._lock = threading.Lock()
        self._rate = SimpleRate(window)
        self._bound = UNLIMITED

    def limit(self, bound: int) -> None:
        """Set the limit in bytes a second; UNLIMITED removes it. Bytes of the past count against the new limit."""
        self._bound = bound

    def record(self, size: int) -> None:
        """Count bytes."""
        with self._lock:
            self._rate.record(size, self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        """Whether the rate is above the limit now."""
        bound = self._bound
        # Nearly always: no throttle is set, and nothing has to be measured.
        return bound != UNLIMITED and self.byte_rate() > bound

    def byte_rate(self) -> float:
        """Return the bytes a second over the window."""
        with self._lock:
            return self._rate.measure(self._now_ms())

    def _now_ms(self) -> int:
        return self._nanoseconds() // NANOSECONDS_PER_MILLISECOND


class ReplicationQuotas(NamedTuple):
    """The ways of replication. leader: bytes sent to followers; follower: bytes fetched from leaders.

    alter_log_dirs: bytes copied into other log directories of this broker.
    """

    leader: ReplicationQuota
    follower: ReplicationQuota
    alter_log_dirs: ReplicationQuota

    @classmethod
    def of(cls, window: SampleWindow, alter_log_dirs_window: SampleWindow, clock: Clock) -> ReplicationQuotas:
        """Return quotas without limits. window: of the first two."""
        return cls(
            ReplicationQuota(window, clock),
            ReplicationQuota(window, clock),
            ReplicationQuota(alter_log_dirs_window, clock),
        )


def register_replication_quota_metrics(registry: MetricsRegistry, quotas: ReplicationQuotas) -> None:
    """Register the rates by Kafka's names."""
    for kind, description, read in (
        ("LeaderReplication", "Bytes a second sent to throttled replicas", quotas.leader.byte_rate),
        ("FollowerReplication", "Bytes a second fetched for throttled replicas", quotas.follower.byte_rate),
        ("AlterLogDirsReplication", "Bytes a second copied between log directories", quotas.alter_log_dirs.byte_rate),
    ):
        registry.register_attribute(GROUP, kind, "byte-rate", description, read)
