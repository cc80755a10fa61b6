"""The identity of this broker: its id and its cluster's, from the settings, the log directories and the store.

Called by BrokerServer during start, on its thread. Kafka: KafkaServer.getBrokerIdAndOfflineDirs,
getOrGenerateClusterId, and the checks of meta.properties.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.broker_registration import get_or_generate_cluster_id
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.zk.kafka_zk_client import KafkaZkClient

GENERATE = -1


class IdentityConfig(Settings):
    """The settings from which a broker gets its id."""

    broker_id: int = computed(lambda config: config.integer("broker.id"), "broker.id", "node.id")
    is_id_generated: bool = setting("broker.id.generation.enable")
    largest_given_id: int = setting("reserved.broker.max.id")


class BrokerIdentity(NamedTuple):
    """The ids of a broker and of its cluster."""

    broker_id: int
    cluster_id: str


def establish_identity(config: KafkaConfig, zk_client: KafkaZkClient, directories: LogDirectories) -> BrokerIdentity:
    """Determine the ids of this broker and its cluster, and write them into every log directory.

    `broker.id` decides; -1 takes the id in the directories, or generates one if that is enabled. Raises ConfigError:
    the directories name several brokers, or no id may be generated. Raises InconsistentMetaProperties: a directory
    belongs to another broker or cluster.
    """
    found = [properties for properties in directories.meta_properties().values() if properties is not None]
    remembered = {properties.broker_id for properties in found if properties.broker_id is not None} - {GENERATE}
    identity = IdentityConfig.from_kafka_config(config)
    broker_id = identity.broker_id
    if broker_id == GENERATE:
        if len(remembered) > 1:
            raise ConfigError(
                f"The log directories belong to several brokers: {sorted(remembered)}; name those of one broker",
                "log.dirs",
            )
        if remembered:
            broker_id = remembered.pop()
        elif identity.is_id_generated:
            # Above `reserved.broker.max.id`, so that a generated id never equals one that an operator chose.
            broker_id = zk_client.generate_broker_id() + identity.largest_given_id
        else:
            raise ConfigError("broker.id is -1, and broker.id.generation.enable is false: set one of them", "broker.id")
    # Before an id is generated: beside an empty store, the logs of another cluster would be taken for this cluster's.
    if zk_client.cluster_id() is None:
        for path, properties in directories.meta_properties().items():
            if properties is not None and properties.cluster_id is not None:
                raise InconsistentMetaProperties(
                    f"{path} belongs to cluster {properties.cluster_id}, but the metadata store is empty. If an"
                    " Apache Kafka wrote it, take it over with `barnabas log adopt`."
                )
    cluster_id = get_or_generate_cluster_id(zk_client)
    directories.check_and_write_meta_properties(cluster_id, broker_id)
    return BrokerIdentity(broker_id, cluster_id)
