"""The sizes of the thread pools that the broker itself makes, each followed while the broker runs.

Read by BrokerServer at start and by `reconfigurable_parts` at a change. Frozen, so any thread reads them.
Kafka: DynamicThreadPool in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting


@dataclass(frozen=True, slots=True)
class RequestHandlerConfig(Settings):
    """The pool of request handlers."""

    threads: int = setting("num.io.threads")


@dataclass(frozen=True, slots=True)
class SchedulerConfig(Settings):
    """The threads that flush, retain and checkpoint."""

    threads: int = setting("background.threads")
