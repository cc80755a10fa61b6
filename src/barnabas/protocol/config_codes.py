"""The numbers in messages about settings: what has settings, where one comes from, what is done to it.

Shared by the broker's handlers and the admin client; immutable. Kafka: ConfigResource.Type,
DescribeConfigsResponse.ConfigSource, AlterConfigOp.OpType.
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class ConfigSource(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class ConfigOperation(IntEnum):
    """What an incremental change does to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
