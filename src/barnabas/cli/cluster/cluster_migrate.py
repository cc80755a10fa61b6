"""`barnabas cluster migrate`: a stopped broker's metadata into ZooKeeper, and back. Runs on the main thread."""

from __future__ import annotations

import logging

import click

from barnabas.cli.client_options import BOOTSTRAP_TIMEOUT_MS, fail
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.properties_file import load_properties

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
    patience = {"zookeeper.connection.timeout.ms": str(BOOTSTRAP_TIMEOUT_MS)}
    return KafkaConfig.parse(
        {**patience, **of_zookeeper, "zookeeper.connect": zookeeper, "metadata.store": "zookeeper"},
        config_file or "the command line",
        tolerated=of_zookeeper.keys(),
    )
