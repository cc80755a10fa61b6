"""The admin client: `Admin`, and what it takes and returns."""

from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.config_change import ConfigChange, ConfigResource
from barnabas.clients.admin.new_topic import (
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from barnabas.clients.admin.replicas import LogDir, ProducerState, ReplicaInfo
from barnabas.clients.cluster import PartitionInfo
from barnabas.protocol.config_codes import ConfigOperation

__all__ = [
    "Admin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "CreatedTopic",
    "LogDir",
    "NewTopic",
    "PartitionInfo",
    "ProducerState",
    "ReplicaInfo",
    "TopicDescription",
]
