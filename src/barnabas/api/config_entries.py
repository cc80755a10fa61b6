"""Settings as the API shows them: value, where it comes from, and what else would apply.

Called by the configs and topics handlers. Pure functions over the tables of `barnabas.config`.
Kafka: ConfigHelper.createTopicConfigEntry, createBrokerConfigEntry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey, Scope
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import topic_values
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS, TopicConfigKey


class ConfigSource(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A setting that gives, or would give, the value: the first of a list is the one in force."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic or broker. value: None when it has none, or when it is a secret."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]


def topic_entries(
    broker: KafkaConfig, overrides: Mapping[str, str], wanted: Callable[[str], bool] = lambda _: True
) -> list[ConfigEntry]:
    """Every wanted setting of a topic with these overrides."""
    values = topic_values(broker, overrides)
    entries = []
    for name, topic_key in TOPIC_CONFIG_KEYS.items():
        if wanted(name):
            synonyms = _topic_synonyms(broker, overrides, topic_key)
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            entries.append(ConfigEntry(topic_key.key, topic_key.key.text(values[name]), source, False, synonyms))
    return entries


def broker_entries(broker: KafkaConfig, wanted: Callable[[str], bool] = lambda _: True) -> list[ConfigEntry]:
    """Every wanted setting of this broker."""
    entries = []
    for name, key in BROKER_CONFIG_KEYS.items():
        if wanted(name):
            synonyms = _broker_synonyms(broker, name)
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            entries.append(ConfigEntry(key, broker.text(name), source, key.scope is Scope.READ_ONLY, synonyms))
    return entries


def _topic_synonyms(
    broker: KafkaConfig, overrides: Mapping[str, str], topic_key: TopicConfigKey
) -> tuple[ConfigSynonym, ...]:
    synonyms = []
    if topic_key.name in overrides:
        synonyms.append(ConfigSynonym(topic_key.name, overrides[topic_key.name], ConfigSource.TOPIC))
    for synonym in topic_key.synonyms:
        synonyms.extend(_broker_synonyms(broker, synonym.name))
    # What the file sets comes before any default, whichever of the synonyms it names.
    return tuple(sorted(synonyms, key=lambda synonym: synonym.source))


def _broker_synonyms(broker: KafkaConfig, name: str) -> tuple[ConfigSynonym, ...]:
    key = BROKER_CONFIG_KEYS[name]
    synonyms = []
    if broker.is_set(name):
        synonyms.append(ConfigSynonym(name, broker.text(name), ConfigSource.STATIC_BROKER))
    if key.default is not None:
        default = None if key.is_sensitive else key.text(key.default)
        synonyms.append(ConfigSynonym(name, default, ConfigSource.DEFAULT))
    return tuple(synonyms)
