"""The windows over which quotas are measured. Frozen, so any thread reads them; they change with the file only.

Read by `quota_managers` when the broker starts. Kafka: ClientQuotaManagerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting


def _in_milliseconds(seconds: int) -> int:
    return seconds * 1000


@dataclass(frozen=True, slots=True)
class QuotaConfig(Settings):
    """Numbers of samples, and the length of one. statistics: of rates that are shown and limit nothing."""

    client_samples: int = setting("quota.window.num")
    client_window_ms: int = setting("quota.window.size.seconds", _in_milliseconds)
    controller_samples: int = setting("controller.quota.window.num")
    controller_window_ms: int = setting("controller.quota.window.size.seconds", _in_milliseconds)
    replication_samples: int = setting("replication.quota.window.num")
    replication_window_ms: int = setting("replication.quota.window.size.seconds", _in_milliseconds)
    alter_log_dirs_samples: int = setting("alter.log.dirs.replication.quota.window.num")
    alter_log_dirs_window_ms: int = setting("alter.log.dirs.replication.quota.window.size.seconds", _in_milliseconds)
    statistics_samples: int = setting("metrics.num.samples")
    statistics_window_ms: int = setting("metrics.sample.window.ms")
