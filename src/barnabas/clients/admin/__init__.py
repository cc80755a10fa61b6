"""The admin client: `Admin`, and what it takes and returns."""

from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.new_topic import (
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from barnabas.clients.cluster import PartitionInfo

__all__ = [
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "CreatedTopic",
    "NewTopic",
    "PartitionInfo",
    "TopicDescription",
]
