"""The arguments and results of the admin client: topics, clusters and settings. Immutable.

Kafka: NewTopic, ConfigEntry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.rpc.node import Node


@dataclass(frozen=True)
class NewTopic:
    """A topic to create. A number of -1 is the broker's default. `assignments`: broker ids by partition, instead."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """A topic that was created. The numbers are -1 from brokers before 2.4."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


class ClusterDescription(NamedTuple):
    """A cluster as a broker describes it. `controller_id` is -1 while the broker knows none."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class ConfigEntry(NamedTuple):
    """A setting. `source`: 1 topic, 2 and 3 dynamic broker, 4 static broker, 5 default, -1 unknown."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
