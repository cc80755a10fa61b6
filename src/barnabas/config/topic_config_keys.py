"""The table of topic settings, and for each the broker setting that gives its default.

Read by `LogConfig`, by topic creation and by DescribeConfigs. Built once at import. Where a topic setting has a broker
synonym of the same meaning, it has the type, bounds and description of the synonym, unless Kafka's differ.
Kafka: LogConfig, TopicConfig, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    LIST,
    ConfigKey,
    Range,
    ThrottledReplicas,
    Validator,
)
from barnabas.config.keys.log_keys import NO_TIERS

MILLISECONDS_PER_MINUTE = 60_000
MILLISECONDS_PER_HOUR = 3_600_000


class Synonym(NamedTuple):
    """A broker setting that a topic setting falls back to; its value times `factor` is in the topic's unit."""

    name: str
    factor: int = 1


class TopicConfigKey(NamedTuple):
    """A topic setting and the source of its default: the first synonym that is set, else the default of the last."""

    key: ConfigKey
    synonyms: tuple[Synonym, ...] = ()

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.key.name


def _from_broker_setting(name: str, *synonyms: Synonym | str, validator: Validator | None = None) -> TopicConfigKey:
    """Make a topic setting like its broker synonyms, of which the last has the default."""
    resolved = tuple(Synonym(synonym) if isinstance(synonym, str) else synonym for synonym in synonyms)
    default = BROKER_CONFIG_KEYS[resolved[-1].name].default
    if isinstance(default, int) and not isinstance(default, bool):
        default *= resolved[-1].factor
    first = BROKER_CONFIG_KEYS[resolved[0].name]
    validator = first.validator if validator is None else validator
    return TopicConfigKey(first._replace(name=name, default=default, validator=validator), resolved)


_TOPIC_ONLY = (
    LIST("leader.replication.throttled.replicas", (), ThrottledReplicas())
    | "The replicas whose reads are throttled on the leader: partition:broker pairs, or *.",
    LIST("follower.replication.throttled.replicas", (), ThrottledReplicas())
    | "The replicas whose fetches are throttled on the follower: partition:broker pairs, or *.",
    BOOLEAN("remote.storage.enable", False, kept=NO_TIERS) | "Whether the topic's segments go to remote storage.",
    BOOLEAN("remote.log.copy.disable", False, kept=NO_TIERS) | "Whether copies to remote storage are disabled.",
    BOOLEAN("remote.log.delete.on.disable", False, kept=NO_TIERS)
    | "Whether remote data are deleted when a topic's remote storage is disabled.",
)
"""The settings whose default no broker setting gives."""

# In Kafka's order, in which DescribeConfigs lists them. Bounds are given where the topic's differ from the broker's: a
# broker's setting that may be unset has none, while the topic's always has a value.
_KEYS = (
    _from_broker_setting("segment.bytes", "log.segment.bytes"),
    _from_broker_setting(
        "segment.ms", "log.roll.ms", Synonym("log.roll.hours", MILLISECONDS_PER_HOUR), validator=AT_LEAST_1
    ),
    _from_broker_setting(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", MILLISECONDS_PER_HOUR),
        validator=AT_LEAST_0,
    ),
    _from_broker_setting("segment.index.bytes", "log.index.size.max.bytes"),
    _from_broker_setting("flush.messages", "log.flush.interval.messages"),
    _from_broker_setting("flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms", validator=AT_LEAST_0),
    _from_broker_setting("retention.bytes", "log.retention.bytes"),
    _from_broker_setting(
        "retention.ms",
        "log.retention.ms",
        Synonym("log.retention.minutes", MILLISECONDS_PER_MINUTE),
        Synonym("log.retention.hours", MILLISECONDS_PER_HOUR),
        validator=Range(-1),
    ),
    _from_broker_setting("max.message.bytes", "message.max.bytes"),
    _from_broker_setting("index.interval.bytes", "log.index.interval.bytes"),
    _from_broker_setting("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _from_broker_setting("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _from_broker_setting("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _from_broker_setting("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _from_broker_setting("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _from_broker_setting("cleanup.policy", "log.cleanup.policy"),
    _from_broker_setting("unclean.leader.election.enable", "unclean.leader.election.enable"),
    _from_broker_setting("min.insync.replicas", "min.insync.replicas"),
    _from_broker_setting("compression.type", "compression.type"),
    _from_broker_setting("compression.gzip.level", "compression.gzip.level"),
    _from_broker_setting("compression.lz4.level", "compression.lz4.level"),
    _from_broker_setting("compression.zstd.level", "compression.zstd.level"),
    _from_broker_setting("preallocate", "log.preallocate"),
    _from_broker_setting("message.format.version", "log.message.format.version"),
    _from_broker_setting("message.timestamp.type", "log.message.timestamp.type"),
    _from_broker_setting("message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms"),
    _from_broker_setting("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _from_broker_setting("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _from_broker_setting("message.downconversion.enable", "log.message.downconversion.enable"),
    _from_broker_setting("local.retention.ms", "log.local.retention.ms"),
    _from_broker_setting("local.retention.bytes", "log.local.retention.bytes"),
    _from_broker_setting("record.validation", "record.validation"),
    *map(TopicConfigKey, _TOPIC_ONLY),
)

TOPIC_CONFIG_KEYS: dict[str, TopicConfigKey] = {key.name: key for key in _KEYS}
"""Name -> topic setting."""
