"""The settings of one topic's logs: the broker's defaults with the topic's overrides on top.

Made when a log is created or its topic's settings change; replaced as a whole, never changed, so any thread reads it.
The messages are Kafka's.

Kafka: org.apache.kafka.storage.internals.log.LogConfig, ThrottledReplicaListValidator, AllReplicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from barnabas.config.config_error import ConfigError, InvalidConfiguration
from barnabas.config.config_key import LONG_MAX, ConfigValue
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS, TopicConfigKey

_ALL_REPLICAS: Final = ("*",)


@dataclass(frozen=True, slots=True)
class ReplicaPairs:
    """The replicas that a topic's throttle is for: pairs of partition:broker, or `*` for all.

    listed: the pairs without leading zeros.
    """

    is_all: bool
    listed: frozenset[str]

    @classmethod
    def of(cls, items: tuple[str, ...]) -> ReplicaPairs:
        """Return the pairs of a value that `config_key.ThrottledReplicas` has accepted."""
        if not items:
            return NO_REPLICAS
        if items == _ALL_REPLICAS:
            return cls(is_all=True, listed=frozenset())
        pairs = [item.split(":") for item in items]
        return cls(is_all=False, listed=frozenset(f"{int(partition)}:{int(broker)}" for partition, broker in pairs))

    def covers(self, partition: int, broker_id: int) -> bool:
        """Return whether the replica of a partition on a broker is among them."""
        return self.is_all or (bool(self.listed) and f"{partition}:{broker_id}" in self.listed)


NO_REPLICAS: Final = ReplicaPairs(is_all=False, listed=frozenset())

_DECLARATION: Final = "barnabas.topic setting"


class _Declaration(NamedTuple):
    """The declaration of a field: the topic settings it depends on, and the function that computes its value."""

    names: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], Any]


def topic_setting(name: str, convert: Callable[[Any], Any] | None = None) -> Any:
    """Declare a field that holds one topic setting. convert: makes the field's value of the setting's.

    Raises KeyError: the table has no topic setting of this name.
    """
    key = TOPIC_CONFIG_KEYS[name]
    if convert is None:
        return _field((key.name,), lambda values: values[name])
    return _field((key.name,), lambda values: convert(values[name]))


def _field(names: tuple[str, ...], read: Callable[[Mapping[str, Any]], Any]) -> Any:
    return field(metadata={_DECLARATION: _Declaration(names, read)})


# Kafka takes every negative number for "no limit". Here one number stands for it, so that the code compares with -1.
def _limit(value: int) -> int:
    return max(value, -1)


def _timestamp_limit(name: str) -> Any:
    """Declare one direction's limit: the older setting for both applies where the newer one is at its default."""
    older = "message.timestamp.difference.max.ms"
    return _field((name, older), lambda values: values[older] if values[name] == LONG_MAX else values[name])


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic's logs; units as in the names. The notation is that of `barnabas.config.setting`."""

    segment_bytes: int = topic_setting("segment.bytes")
    segment_ms: int = topic_setting("segment.ms")
    segment_jitter_ms: int = topic_setting("segment.jitter.ms")
    segment_index_bytes: int = topic_setting("segment.index.bytes")
    flush_messages: int = topic_setting("flush.messages")
    flush_ms: int = topic_setting("flush.ms")
    retention_bytes: int = topic_setting("retention.bytes", _limit)
    """The bytes kept per partition; -1 is no limit."""
    retention_ms: int = topic_setting("retention.ms", _limit)
    """The time for which records are kept; -1 is for ever."""
    max_message_bytes: int = topic_setting("max.message.bytes")
    index_interval_bytes: int = topic_setting("index.interval.bytes")
    delete_retention_ms: int = topic_setting("delete.retention.ms")
    min_compaction_lag_ms: int = topic_setting("min.compaction.lag.ms")
    max_compaction_lag_ms: int = topic_setting("max.compaction.lag.ms")
    file_delete_delay_ms: int = topic_setting("file.delete.delay.ms")
    min_cleanable_dirty_ratio: float = topic_setting("min.cleanable.dirty.ratio")
    cleanup_policy: frozenset[str] = topic_setting("cleanup.policy", frozenset)
    """A subset of "delete" and "compact"; may be empty."""
    min_in_sync_replicas: int = topic_setting("min.insync.replicas")
    compression_type: str = topic_setting("compression.type")
    """"producer", or a codec's name, or "uncompressed"."""
    compression_gzip_level: int = topic_setting("compression.gzip.level")
    compression_lz4_level: int = topic_setting("compression.lz4.level")
    compression_zstd_level: int = topic_setting("compression.zstd.level")
    preallocate: bool = topic_setting("preallocate")
    message_timestamp_type: str = topic_setting("message.timestamp.type")
    """"CreateTime" or "LogAppendTime"."""
    message_timestamp_before_max_ms: int = _timestamp_limit("message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = _timestamp_limit("message.timestamp.after.max.ms")
    message_downconversion: bool = topic_setting("message.downconversion.enable")
    record_validation: str = topic_setting("record.validation")
    """"header", "framing" or "full"."""
    leader_throttled_replicas: ReplicaPairs = topic_setting("leader.replication.throttled.replicas", ReplicaPairs.of)
    follower_throttled_replicas: ReplicaPairs = topic_setting(
        "follower.replication.throttled.replicas", ReplicaPairs.of
    )

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_age_or_size(self) -> bool:
        """Whether retention deletes old segments."""
        return "delete" in self.cleanup_policy

    @classmethod
    def of(cls, broker: KafkaConfig, overrides: Mapping[str, str] | None = None) -> LogConfig:
        """Return the broker's defaults with the topic's overrides on top.

        Raises ConfigError: an override is unknown, or its value does not fit.
        """
        values = topic_values(broker, overrides or {})
        return cls(**{each.name: each.metadata[_DECLARATION].read(values) for each in fields(cls)})

    @classmethod
    def names(cls) -> dict[str, tuple[str, ...]]:
        """Return the topic settings that each field depends on."""
        return {each.name: each.metadata[_DECLARATION].names for each in fields(cls)}


def topic_values(broker: KafkaConfig, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return every topic setting with its value: the override, or the broker's default.

    Raises ConfigError: an override is unknown, or its value does not fit.
    """
    parsed = _parse(overrides)
    return {name: parsed.get(name, _default(broker, key)) for name, key in TOPIC_CONFIG_KEYS.items()}


def validate_topic_config(overrides: Mapping[str, str], broker: KafkaConfig | None = None) -> None:
    """Check a topic's settings, together with the defaults of `broker` if it is given.

    Raises ConfigError: a setting is unknown, its value does not fit, or two settings contradict each other.
    """
    values = topic_values(broker, overrides) if broker is not None else _parse(overrides)
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
            "min.compaction.lag.ms",
        )
    # Kafka on ZooKeeper rejects these two, also for a topic without remote storage.
    if values.get("remote.log.delete.on.disable") or values.get("remote.log.copy.disable"):
        raise InvalidConfiguration(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
            "remote.log.delete.on.disable",
        )
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
            "remote.storage.enable",
        )


def _parse(overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Parse a topic's own settings. Raises ConfigError: one is unknown, or its value does not fit."""
    unknown = next((name for name in overrides if name not in TOPIC_CONFIG_KEYS), None)
    if unknown is not None:
        raise InvalidConfiguration(f"Unknown topic config name: {unknown}", unknown)
    return {name: TOPIC_CONFIG_KEYS[name].key.parse(text) for name, text in overrides.items()}


def _default(broker: KafkaConfig, key: TopicConfigKey) -> ConfigValue:
    """Return the value of the first synonym that has one, in the topic's unit."""
    # log.retention.ms and log.retention.minutes have no default: unset, they leave the choice to log.retention.hours.
    # A positive number is turned into the topic's unit; -1 keeps its meaning in every unit.
    for synonym in key.synonyms:
        value = broker.value(synonym.name)
        if value is not None:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return value * synonym.factor if is_number and value > 0 else value  # type: ignore[operator]
    return key.key.default
