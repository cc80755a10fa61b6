"""`barnabas cluster`: the brokers, what they lead and store, the APIs and features that they support, and the migration
of a stopped broker's metadata into ZooKeeper and back. Runs on the main thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas import __version__, build
from barnabas.cli.client_options import BOOTSTRAP_TIMEOUT_MS, Connect, admin_options, fail
from barnabas.cli.cluster.cluster_health import health
from barnabas.cli.option_types import NUMBER
from barnabas.cli.tables import json_option, print_json, print_table
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.properties_file import load_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.clients.admin import Admin, TopicDescription

_ZOOKEEPER = (
    f"As zookeeper.connect of the brokers. It must answer within {BOOTSTRAP_TIMEOUT_MS // 1_000} seconds, or within the"
    " zookeeper.connection.timeout.ms of --config."
)


@click.command()
@click.argument("log_dirs", metavar="DIR...", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--zookeeper", required=True, metavar="HOST:PORT[/CHROOT]", help=_ZOOKEEPER)
@click.option(
    "--metadata-dir",
    type=click.Path(exists=True, file_okay=False),
    help="The directory of the metadata, as metadata.log.dir. [default: the first DIR]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="The broker's server.properties, whose zookeeper.* settings say how to connect: TLS, login, ACLs.",
)
@click.option("--back", is_flag=True, help="Out of ZooKeeper into the directory, for a cluster of one broker.")
def migrate(
    log_dirs: tuple[str, ...], zookeeper: str, metadata_dir: str | None, config_file: str | None, back: bool
) -> None:
    """Move the metadata of a stopped broker that stands alone into ZooKeeper, where other brokers can join it.

    Name all log directories of the broker. Topics, settings, ACLs, users, tokens, quotas, producer ids and the
    cluster's id are copied and checked; records stay where they are. The store that was copied is left as it is, with a
    mark: a broker that is started on it by mistake refuses.

    \b
        barnabas cluster migrate /var/lib/barnabas --zookeeper zk1:2181,zk2:2181/kafka
        barnabas cluster migrate /var/lib/barnabas --zookeeper zk1:2181/kafka --back

    """
    from barnabas.broker.metadata_migration import MetadataMigration
    from barnabas.storage.errors import InconsistentMetaProperties, LogDirectoryLocked
    from barnabas.zk.store.errors import StoreError
    from barnabas.zk.znodes.znode_copy import CopyRefused
    from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig

    try:
        from barnabas.zk.zookeeper.zookeeper_connection import LOGGER_NAME
        from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
    except ImportError as error:
        fail(f"this command needs the extra zookeeper: pip install barnabas[zookeeper] ({error})")
    try:
        store = ZookeeperStore(ZookeeperConfig.from_kafka_config(_settings(zookeeper, config_file)))
    except ConfigError as error:
        fail(str(error))
    # Kazoo logs each attempt to connect; the command says the outcome. What this package logs is shown: an expired
    # session, a full disk.
    for name in ("kazoo", LOGGER_NAME):
        logging.getLogger(name).addHandler(logging.NullHandler())
    try:
        store.start()
        with MetadataMigration(log_dirs, metadata_dir, store, zookeeper) as migration:
            moved = migration.out_of_zookeeper() if back else migration.into_zookeeper()
    except (CopyRefused, InconsistentMetaProperties, LogDirectoryLocked, StoreError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot use {error.filename or ', '.join(log_dirs)}: {error.strerror or error}")
    finally:
        store.close()
    click.echo(f"cluster {moved.cluster_id}\tznodes {moved.znodes}\tcopied and checked")
    click.echo(f"start the broker {'without zookeeper.connect' if back else f'with zookeeper.connect={zookeeper}'}")


def _settings(zookeeper: str, config_file: str | None) -> KafkaConfig:
    """Return the settings of the connection. Raises ConfigError: a setting of the file cannot be used."""
    properties = {} if config_file is None else load_properties(config_file)
    of_zookeeper = {name: text for name, text in properties.items() if name.startswith("zookeeper.")}
    # A person waits: a broker that starts together with its ZooKeeper needs the longer default, this command does not.
    timeout = {"zookeeper.connection.timeout.ms": str(BOOTSTRAP_TIMEOUT_MS)}
    return KafkaConfig.parse(
        {**timeout, **of_zookeeper, "zookeeper.connect": zookeeper, "metadata.store": "zookeeper"},
        config_file or "the command line",
        tolerated=of_zookeeper.keys(),
    )


class _Broker(NamedTuple):
    """A broker, or an id that only the replicas of partitions name. The names are those of `--json`.

    address: None unless the broker is registered. failed_log_dirs, bytes: None unless the broker has answered.
    """

    id: int
    address: str | None
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    not_in_sync: int
    failed_log_dirs: int | None
    bytes: int | None


class _Stored(NamedTuple):
    """What lies in a broker's log directories; None where the broker did not answer."""

    failed_log_dirs: int | None
    size: int | None


@click.command()
@admin_options
@json_option
def brokers(connect: Connect, as_json: bool) -> None:
    """Show each broker: what it leads, its replicas, how many of them are not in sync, and what it stores.

    A broker that has replicas and is not registered is shown without an address.
    """
    with connect() as admin:
        found = _read_brokers(admin)
    if as_json:
        print_json({"brokers": [each._asdict() for each in found]})
        return
    columns = ("broker", "address", "rack", "controller", "leaders", "replicas", "not in sync", "failed dirs", "bytes")
    print_table(
        columns,
        [
            (
                str(each.id),
                each.address or "not registered",
                each.rack or "-",
                "yes" if each.controller else "no",
                str(each.leaders),
                str(each.replicas),
                str(each.not_in_sync),
                *("?" if number is None else str(number) for number in (each.failed_log_dirs, each.bytes)),
            )
            for each in found
        ],
    )


def _read_brokers(admin: Admin) -> list[_Broker]:
    described = admin.describe_cluster()
    nodes = {node.id: node for node in described.nodes}
    counts = _counts(admin.describe_topics())
    found = []
    for broker_id in sorted(nodes.keys() | counts["replicas"].keys()):
        node = nodes.get(broker_id)
        stored = _Stored(None, None) if node is None else _stored(admin, broker_id)
        found.append(
            _Broker(
                id=broker_id,
                address=None if node is None else f"{node.host}:{node.port}",
                rack=None if node is None else node.rack,
                controller=broker_id == described.controller_id,
                leaders=counts["leaders"][broker_id],
                replicas=counts["replicas"][broker_id],
                not_in_sync=counts["replicas"][broker_id] - counts["in sync"][broker_id],
                failed_log_dirs=stored.failed_log_dirs,
                bytes=stored.size,
            )
        )
    return found


def _counts(topics: Mapping[str, TopicDescription]) -> dict[str, Counter[int]]:
    """Count by broker id what it leads, its replicas, and those in sync."""
    leaders, replicas, in_sync = Counter[int](), Counter[int](), Counter[int]()
    for topic in topics.values():
        for partition in topic.partitions:
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            in_sync.update(set(partition.isr) & set(partition.replicas))
    return {"leaders": leaders, "replicas": replicas, "in sync": in_sync}


def _stored(admin: Admin, broker_id: int) -> _Stored:
    from barnabas.clients.errors import ClientTimeout

    try:
        directories = admin.describe_log_dirs(broker_id)
    except (ClientTimeout, ConnectionError):
        # Registered, and frozen or cut off: the other brokers are worth showing.
        return _Stored(None, None)
    return _Stored(
        sum(1 for directory in directories if directory.error),
        sum(replica.size for directory in directories for replica in directory.replicas.values()),
    )


broker_option = click.option(
    "--broker", "broker_id", type=NUMBER, metavar="ID", help="The broker to ask. [default: any]"
)


@click.group()
def cluster() -> None:
    """Show brokers, the APIs and features they support, unsafe partitions; move the metadata into ZooKeeper."""


cluster.add_command(brokers)
cluster.add_command(health)
cluster.add_command(migrate)


@cluster.command()
@admin_options
@json_option
def describe(connect: Connect, as_json: bool) -> None:
    """Show the cluster's id, its controller and its brokers, and the version and build of this client.

    The protocol has no field for a broker's build: it is in the first lines of the broker's log, and in the metric
    kafka_server_app_info_build.
    """
    with connect() as admin:
        described = admin.describe_cluster()
    client = f"barnabas {__version__} ({build()})"
    if as_json:
        print_json(
            {
                "cluster": described.cluster_id,
                "controller": described.controller_id if described.controller_id >= 0 else None,
                "brokers": [
                    {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack} for node in described.nodes
                ],
                "client": client,
            }
        )
        return
    controller = described.controller_id if described.controller_id >= 0 else "none"
    click.echo(f"cluster {described.cluster_id}\tcontroller {controller}\tbrokers {len(described.nodes)}")
    rows = [(str(node.id), f"{node.host}:{node.port}", node.rack or "-") for node in described.nodes]
    print_table(("broker", "address", "rack"), rows)
    click.echo(f"client {client}")


@cluster.command()
@admin_options
@broker_option
def apis(connect: Connect, broker_id: int | None) -> None:
    """Show each API of a broker: the versions it supports, and the one that this client would use."""
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.protocol.message_index import MESSAGES, request_class

    with connect() as admin:
        found = admin.describe_features(broker_id).api_versions
    rows = []
    for key, (lowest, highest) in sorted(found.items()):
        # A broker may have APIs that this client does not know, and versions that overlap with none of the client's.
        known = key in MESSAGES
        newest = min(highest, request_class(key).max_version) if known else -1
        usable = known and newest >= max(lowest, request_class(key).min_version)
        name = ApiKey(key).name if key in set(ApiKey) else "unknown"
        rows.append((str(key), name, f"{lowest}-{highest}", str(newest) if usable else "none"))
    print_table(("key", "API", "versions", "usable"), rows)


@cluster.command()
@admin_options
@broker_option
def features(connect: Connect, broker_id: int | None) -> None:
    """Show the cluster's features (KIP-584): the levels supported, and those in force."""
    with connect() as admin:
        found = admin.describe_features(broker_id)
    rows = [
        (
            name,
            "{}-{}".format(*found.supported[name]) if name in found.supported else "-",
            str(found.finalized[name][1]) if name in found.finalized else "-",
        )
        for name in sorted(found.supported.keys() | found.finalized.keys())
    ]
    print_table(("feature", "supported", "in force"), rows)
    if not rows:
        click.echo("no features")
