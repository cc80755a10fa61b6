"""The settings that the composition root itself reads, with the sizes of the thread pools that it makes.

Read at start, the sizes by `reconfigurable_parts` again at a change. Frozen, so any thread reads them.
Kafka: DynamicThreadPool in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

import os

from barnabas.config.config_values import ConfigValues
from barnabas.config.cross_checks import uses_zookeeper
from barnabas.config.setting import Settings, computed, setting


def _metadata_dir(config: ConfigValues) -> str | None:
    if uses_zookeeper(config):
        return None
    return os.path.abspath(config.optional_string("metadata.log.dir") or config.log_dirs[0])


class ServerConfig(Settings):
    """The settings of a broker as a whole, and the place of its data.

    metadata_dir: absolute; None with ZooKeeper. emulated_release: None means all that this version has.
    are_listeners_advertised: whether clients are told of the listeners as they were bound, since no other addresses are
    given.
    """

    rack: str | None = setting("broker.rack")
    metadata_dir: str | None = computed(
        _metadata_dir, "metadata.log.dir", "log.dirs", "log.dir", "metadata.store", "zookeeper.connect"
    )
    log_dirs: tuple[str, ...] = computed(lambda config: tuple(config.log_dirs), "log.dirs", "log.dir")
    zookeeper_session_timeout_ms: int = setting("zookeeper.session.timeout.ms")
    log_dir_failure_timeout_ms: int = setting("log.dir.failure.timeout.ms")
    emulated_release: str | None = setting("broker.emulate.version")
    fetch_session_slots: int = setting("max.incremental.fetch.session.cache.slots")
    are_listeners_advertised: bool = setting("advertised.listeners", lambda text: not text)


class RequestHandlerConfig(Settings):
    """The pool of request handlers."""

    threads: int = setting("num.io.threads")


class SchedulerConfig(Settings):
    """The threads that flush, retain and checkpoint."""

    threads: int = setting("background.threads")
