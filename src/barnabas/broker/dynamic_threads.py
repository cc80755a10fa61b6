"""Numbers of threads that follow their settings: request handlers, scheduler, and those that load and close logs.

Called by DynamicBrokerConfig; changes nothing of its own, so no lock. Kafka: DynamicThreadPool and
BrokerDynamicThreadPool in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.config.config_error import ConfigError, StepTooLarge
from barnabas.config.kafka_config import KafkaConfig


class DynamicThreads:
    """resize: by setting, what is given its new value. `num.replica.fetchers` is checked and kept, as yet."""

    settings = frozenset(
        {"num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads"}
    )

    def __init__(self, resize: Mapping[str, Callable[[int], None]]) -> None:
        self._resize = resize

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """See Reconfigurable."""
        for name in sorted(self.settings):
            check_thread_count(name, current.integer(name), proposed.integer(name))

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """See Reconfigurable."""
        for name, resize in self._resize.items():
            if current.integer(name) != previous.integer(name):
                resize(current.integer(name))


def check_thread_count(name: str, old: int, new: int) -> None:
    """StepTooLarge unless a number of threads at most halves or doubles, ConfigError for none."""
    if new == old:
        return
    failed = f"Dynamic thread count update validation failed for {name}={new}"
    if new <= 0:
        raise ConfigError(f"{failed}, value should be at least 1", name)
    if new < old // 2:
        raise StepTooLarge(f"{failed}, value should be at least half the current value {old}", name)
    if new > old * 2:
        raise StepTooLarge(f"{failed}, value should not be greater than double the current value {old}", name)
