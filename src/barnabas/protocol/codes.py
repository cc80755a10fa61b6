"""The numbers in messages about settings, leader elections and features of the cluster.

Shared by the broker's handlers, the controller and the admin client; immutable.

Kafka: ConfigResource.Type, DescribeConfigsResponse.ConfigSource, AlterConfigOp.OpType, ElectionType, UpgradeType.
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The kinds of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class ConfigSource(IntEnum):
    """The sources of a value."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class ConfigOperation(IntEnum):
    """The operations of an incremental change (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ElectionType(IntEnum):
    """The kinds of leader elections: the replicas that may become leader.

    PREFERRED: the first replica of the assignment. UNCLEAN: any replica that is alive, even if records are lost.
    """

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(IntEnum):
    """The changes of a feature's level that a client allows (KIP-584). An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
