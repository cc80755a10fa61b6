"""The settings of one topic's logs: the broker's defaults with the topic's overrides on top.

Made when a log is created or its topic's settings change; replaced as a whole, never changed, so any thread reads it.
Kafka: org.apache.kafka.storage.internals.log.LogConfig; the messages are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.config.config_error import ConfigError, InvalidConfiguration
from barnabas.config.config_key import ConfigValue
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.bounds import LONG_MAX
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS, TopicConfigKey


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One field per topic setting, its dots turned into underscores; units as in the names."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    """-1 is no limit."""
    retention_ms: int
    """-1 is for ever."""
    max_message_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    min_cleanable_dirty_ratio: float
    cleanup_policy: frozenset[str]
    """Of "delete" and "compact"; may be empty."""
    unclean_leader_election: bool
    min_in_sync_replicas: int
    compression_type: str
    """"producer", or a codec's name, or "uncompressed"."""
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    preallocate: bool
    message_timestamp_type: str
    """"CreateTime" or "LogAppendTime"."""
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    message_downconversion: bool
    record_validation: str
    """"header", "framing" or "full"."""

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
        """The broker's defaults and the topic's overrides; ConfigError for an override that does not fit."""
        values: dict[str, Any] = topic_values(broker, overrides or {})
        fields = {field_name(name): value for name, value in values.items()}
        fields["cleanup_policy"] = frozenset(fields["cleanup_policy"])
        for retention in ("retention_ms", "retention_bytes"):
            fields[retention] = max(fields[retention], -1)  # any negative number is no limit
        # The older setting applies to whichever direction the newer ones leave at their default.
        difference_ms = fields["message_timestamp_difference_max_ms"]
        for direction in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if fields[direction] == LONG_MAX:
                fields[direction] = difference_ms
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})


_FIELD_NAMES = {
    "message.downconversion.enable": "message_downconversion",
    "min.insync.replicas": "min_in_sync_replicas",
    "unclean.leader.election.enable": "unclean_leader_election",
}


def field_name(name: str) -> str:
    """The LogConfig field that holds a topic setting."""
    return _FIELD_NAMES.get(name, name.replace(".", "_"))


def topic_values(broker: KafkaConfig, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Every topic setting with its value: the override, or the broker's default."""
    parsed = _parse(overrides)
    return {name: parsed.get(name, _default(broker, key)) for name, key in TOPIC_CONFIG_KEYS.items()}


def validate_topic_config(overrides: Mapping[str, str], broker: KafkaConfig | None = None) -> None:
    """ConfigError, in Kafka's words, if a topic of `broker` (its defaults count too) cannot have these settings."""
    values = topic_values(broker, overrides) if broker is not None else _parse(overrides)
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
            "min.compaction.lag.ms",
        )
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
    unknown = next((name for name in overrides if name not in TOPIC_CONFIG_KEYS), None)
    if unknown is not None:
        raise InvalidConfiguration(f"Unknown topic config name: {unknown}", unknown)
    return {name: TOPIC_CONFIG_KEYS[name].key.parse(text) for name, text in overrides.items()}


def _default(broker: KafkaConfig, key: TopicConfigKey) -> ConfigValue:
    """The value of the first synonym that has one (a default that is None has none), in the topic's unit."""
    for synonym in key.synonyms:
        value = broker.value(synonym.name)
        if value is not None:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return value * synonym.factor if is_number and value > 0 else value  # type: ignore[operator]
    return key.key.default
