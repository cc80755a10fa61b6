"""What `barnabas serve --processes N` does: checks, the store that the brokers share, the brokers, and one ready line.

Called by `cli.serve` on the main thread, which it occupies until all brokers have stopped; no lock. The process owns
the metadata store and runs no broker itself: a broker that dies takes no other with it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import queue
import sys
from collections.abc import Collection, Sequence

from barnabas.broker.settings.server_config import ServerConfig
from barnabas.cli.processes.broker_row import check_brokers, check_directories, check_row, settings_of
from barnabas.cli.processes.shared_store import SharedStore
from barnabas.cli.processes.supervisor import BrokerProcesses, Event, Ready, Stop, Supervisor
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.runtime.clock import SystemClock
from barnabas.zk.store.errors import StoreUnavailableError

logger = logging.getLogger(__name__)

_FAILED = 1


def check_processes(config: KafkaConfig, chosen: Collection[str], count: int) -> None:
    """Check all that can be known before the store is open. chosen: the names that the user has set.

    Raises ConfigError: a setting, a directory or a missing package rules out `count` brokers.
    """
    check_row(config, chosen, count)
    check_directories(config, count)
    if importlib.util.find_spec("kazoo") is None:
        raise ConfigError(
            f"--processes {count}: the brokers reach their common store as they would reach ZooKeeper, which needs the "
            "extra zookeeper: pip install 'barnabas[zookeeper]'"
        )


def run_processes(config: KafkaConfig, count: int, words: Sequence[str], events: queue.SimpleQueue[Event]) -> int:
    """Run the brokers until a `Stop` is among the events. Return the exit status.

    words: the options that every broker is started with.
    """
    directory = ServerConfig.from_kafka_config(config).metadata_dir
    assert directory is not None, "check_row has refused ZooKeeper"
    store = SharedStore(directory, lambda error: events.put(Stop(f"the metadata store has failed: {error}", _FAILED)))
    try:
        store.open()
        check_brokers(store.brokers_with_partitions(), count)
        address = store.serve()
        processes = BrokerProcesses(
            [_command(words, settings_of(config, broker_id, address)) for broker_id in range(count)], events
        )
        supervisor = Supervisor(
            count,
            processes.start,
            processes.stop,
            lambda seconds: _next(events, seconds),
            store.controller_id,
            SystemClock(),
        )
        return supervisor.run(lambda ready: _print_ready_line(ready, config))
    except (ConfigError, OSError, StoreUnavailableError) as error:
        logger.error("the brokers cannot start: %s", error)  # noqa: TRY400 - the message says it all
        return _FAILED
    finally:
        store.close()


def _command(words: Sequence[str], settings: dict[str, str]) -> list[str]:
    """Return the command line of a broker, whose own settings come behind those of all and win over them.

    With -P, the working directory, where others may have put modules, is not searched.
    """
    own = (word for name, value in settings.items() for word in ("--override", f"{name}={value}"))
    return [sys.executable, "-P", "-m", "barnabas", "serve", "--until-stdin-closes", "--one-of-processes", *words, *own]


def _next(events: queue.SimpleQueue[Event], seconds: float | None) -> Event | None:
    try:
        return events.get(timeout=seconds)
    except queue.Empty:
        return None


def _print_ready_line(ready: Sequence[Ready], config: KafkaConfig) -> None:
    """Print the line of all brokers: the addresses in the order of the brokers, so that clients need the first one."""
    facts = [
        f"brokers={','.join(str(each.broker_id) for each in ready)}",
        f"cluster={ready[0].facts.get('cluster', '')}",
    ]
    if consoles := [each.facts["console"] for each in ready if "console" in each.facts]:
        facts.append(f"console={','.join(consoles)}")
    addresses = ",".join(each.addresses for each in ready)
    data = ",".join(map(os.path.abspath, config.log_dirs))
    try:
        print(f"barnabas ready: {addresses} {' '.join(facts)} data={data}", flush=True)  # noqa: T201 - scripts wait for it
    except OSError as error:
        logger.warning("the ready line could not be written: %s", error)
