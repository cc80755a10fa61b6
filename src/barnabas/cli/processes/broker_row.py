"""The row of brokers that `barnabas serve --processes N` runs: the settings of each, and what rules out a row.

Broker i of the row has the id i, every port of the settings plus i, and the directory `broker-i` in each log directory.
All else is the same for all. Pure but for `check_directories`, which looks for files; called by `cli.serve` on the main
thread, so no lock.

    listeners=PLAINTEXT://:9092    broker 0: PLAINTEXT://:9092    broker 1: PLAINTEXT://:9093    ...
    log.dirs=/data                 broker 0: /data/broker-0       broker 1: /data/broker-1       ...
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import Address, parse_host_and_port
from barnabas.config.config_values import ConfigValues
from barnabas.config.cross_checks import uses_zookeeper
from barnabas.config.listeners import EndPoint, advertised_listeners_of, listeners_of
from barnabas.config.server_defaults import LONE_BROKER_DEFAULTS
from barnabas.config.setting import Settings, setting

LAST_PORT: Final = 65_535
IDENTITY_FILE: Final = "meta.properties"
"""What a broker writes into each of its log directories."""
_METRICS: Final = "metrics.listen"
_REPLICAS: Final = "default.replication.factor"
_MOVE: Final = (
    "cd {directory} && mkdir broker-0 && find . -mindepth 1 -maxdepth 1 ! -name broker-0 ! -name 'metadata.sqlite*' "
    "-exec mv {{}} broker-0/ \\;"
)


class RowConfig(Settings):
    """The settings, besides listeners and directories, that differ within a row, or that can rule one out."""

    are_advertised: bool = setting("advertised.listeners", bool)
    replicas: int = setting(_REPLICAS)
    metrics_address: str | None = setting("metrics.listen")
    has_login: bool = setting("zookeeper.sasl.jaas.config", bool)


class _Place(NamedTuple):
    """An address that every broker of the row has, with a port of its own. name: the setting. port: broker 0's."""

    name: str
    text: str
    port: int


def check_row(config: ConfigValues, chosen: Collection[str], count: int) -> None:
    """Check that these settings can be those of `count` brokers.

    chosen: the names that the user has set. Raises ConfigError: a setting is for one broker only, means ZooKeeper, or
    has a port from which no row can begin.
    """
    _check_identity(config, chosen, count)
    _check_replicas(config, count)
    listening = [_Place("listeners", each.connection_string, each.port) for each in listeners_of(config)]
    for place in listening:
        if not place.port:
            raise ConfigError(
                f"listeners={place.text} and --processes {count}: the brokers listen on ports in a row, which needs a "
                f"first one. Set it, for example {place.text[:-1]}9092",
                "listeners",
            )
    metrics = _metrics_address(config)
    if metrics is not None and metrics.port:
        listening.append(_Place(_METRICS, metrics.text, metrics.port))
    _check_ports(listening, count)
    advertised = [each for each in advertised_listeners_of(config) if each.port]
    for host in dict.fromkeys(each.host for each in advertised):
        places = [each for each in advertised if each.host == host]
        _check_ports([_Place("advertised.listeners", each.connection_string, each.port) for each in places], count)


def _check_identity(config: ConfigValues, chosen: Collection[str], count: int) -> None:
    """Raises ConfigError: the settings name one broker, or a ZooKeeper."""
    if name := next((name for name in ("broker.id", "node.id") if name in chosen), None):
        raise ConfigError(
            f"{name}={config.text(name)} and --processes {count}: the brokers have the ids 0 to {count - 1}. Leave "
            f"{name} out",
            name,
        )
    if uses_zookeeper(config):
        raise ConfigError(
            f"zookeeper.connect={config.text('zookeeper.connect')} and --processes {count}: the brokers of one machine "
            "keep their metadata in the data directory. Set metadata.store=embedded, or leave --processes out to join "
            "the cluster of that ZooKeeper",
            "zookeeper.connect",
        )
    if RowConfig.from_kafka_config(config).has_login:
        name = "zookeeper.sasl.jaas.config"
        raise ConfigError(f"{name} and --processes {count}: there is no ZooKeeper. Leave {name} out", name)


def _check_replicas(config: ConfigValues, count: int) -> None:
    """Raises ConfigError: topics would have more replicas than there are brokers, so that none could be created."""
    wanted = {_REPLICAS: RowConfig.from_kafka_config(config).replicas}
    wanted |= {name: int(value) for name, value in _internal_replicas(config).items()}
    for name, replicas in wanted.items():
        if replicas > count:
            raise ConfigError(
                f"{name}={replicas} and --processes {count}: set at most {count}, a replica a broker", name
            )


def _internal_replicas(config: ConfigValues) -> dict[str, str]:
    """Return the settings of the replicas of internal topics: one unless the user has set more."""
    return {name: config.originals.get(name, value) for name, value in LONE_BROKER_DEFAULTS.items()}


def _check_ports(places: Sequence[_Place], count: int) -> None:
    """Raises ConfigError: a row reaches beyond the last port, or two rows have a port in common."""
    for place in places:
        if place.port + count - 1 > LAST_PORT:
            raise ConfigError(
                f"{place.name}={place.text} and --processes {count}: the row of ports would end at "
                f"{place.port + count - 1}, and the last port is {LAST_PORT}. Set {LAST_PORT - count + 1} or less",
                place.name,
            )
    for one, other in combinations(places, 2):
        # Equal ports are an IPv4 and an IPv6 address of one listener, or wrong for a single broker too.
        if 0 < abs(one.port - other.port) < count:
            raise ConfigError(
                f"{one.name}={one.text} and {other.name}={other.text} with --processes {count}: each address is the "
                f"first of {count} in a row, and these rows overlap. Set ports that are at least {count} apart",
                other.name,
            )


def _metrics_address(config: ConfigValues) -> Address | None:
    text = RowConfig.from_kafka_config(config).metrics_address
    return parse_host_and_port(text) if text else None


def settings_of(config: ConfigValues, broker_id: int, store: str) -> dict[str, str]:
    """Return the settings in which a broker of the row differs from `config`. store: for `zookeeper.connect`.

    The replication factors of internal topics are 1 unless the user has set them: all brokers are on one machine.
    """
    settings = {
        "broker.id": str(broker_id),
        "metadata.store": "zookeeper",
        "zookeeper.connect": store,
        # Of a file that also describes a ZooKeeper, which is not used.
        "zookeeper.ssl.client.enable": "false",
        "zookeeper.set.acl": "false",
        "log.dirs": ",".join(broker_directory(directory, broker_id) for directory in config.log_dirs),
        "listeners": _in_row(listeners_of(config), broker_id),
        **_internal_replicas(config),
    }
    if RowConfig.from_kafka_config(config).are_advertised:
        settings["advertised.listeners"] = _in_row(advertised_listeners_of(config), broker_id)
    metrics = _metrics_address(config)
    if metrics is not None:
        settings[_METRICS] = Address(metrics.host, _port(metrics.port, broker_id)).text
    return settings


def broker_directory(directory: str, broker_id: int) -> str:
    """Return the log directory of one broker of a row, inside the directory of all."""
    return os.path.join(os.path.abspath(directory), f"broker-{broker_id}")


def _in_row(end_points: Iterable[EndPoint], broker_id: int) -> str:
    return ",".join(each.with_port(_port(each.port, broker_id)).connection_string for each in end_points)


def _port(first: int, broker_id: int) -> int:
    """Return the port of one broker. first: 0 stays 0, any free port."""
    return first and first + broker_id


# -- directories


def check_directories(config: ConfigValues, count: int) -> None:
    """Check that no log directory is that of a single broker. Raises ConfigError: one is."""
    for directory in map(os.path.abspath, config.log_dirs):
        if os.path.exists(os.path.join(directory, IDENTITY_FILE)):
            raise ConfigError(
                f"log.dirs={directory} and --processes {count}: this directory has the data of a single broker "
                f"({IDENTITY_FILE}). Name another directory, or, if its broker.id is 0 and it is stopped, make it the "
                f"first of the row: {_MOVE.format(directory=directory)}",
                "log.dirs",
            )


def check_brokers(holders: Collection[int], count: int) -> None:
    """Check that no broker with partitions is left out. holders: the ids of the brokers that have replicas.

    Raises ConfigError: the row is too short.
    """
    missing = sorted(broker_id for broker_id in holders if broker_id >= count)
    if missing:
        named = ", ".join(map(str, missing))
        raise ConfigError(
            f"--processes {count}: the brokers {named} have partitions, and would not run. Start "
            f"--processes {missing[-1] + 1}, and move the partitions away (`barnabas reassign`) before you start fewer"
        )
