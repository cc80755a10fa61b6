"""The znodes that exist before a broker starts. Their parents are made on the way.

Made by KafkaZkClient when a broker starts. Immutable. Kafka: ZkData.PersistentZkPaths.
"""

from __future__ import annotations

from typing import Final

from barnabas.zk.broker_zk_data import (
    BrokerIdsZNode,
    BrokerSequenceIdZNode,
    LogDirEventNotificationZNode,
    ProducerIdBlockZNode,
)
from barnabas.zk.config_zk_data import ConfigEntityChangeNotificationZNode, ConfigEntityType, ConfigEntityTypeZNode
from barnabas.zk.topic_zk_data import DeleteTopicsZNode, IsrChangeNotificationZNode, TopicsZNode

PERSISTENT_PATHS: Final[tuple[str, ...]] = (
    "/consumers",
    BrokerIdsZNode.path,
    TopicsZNode.path,
    ConfigEntityChangeNotificationZNode.path,
    DeleteTopicsZNode.path,
    BrokerSequenceIdZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    *(ConfigEntityTypeZNode.path(entity_type) for entity_type in ConfigEntityType.ALL),
)
