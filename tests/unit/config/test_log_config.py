"""Topic settings: broker defaults and their synonyms, overrides, Kafka's messages."""

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig, topic_values, validate_topic_config
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS


def log_config(overrides: dict[str, str] | None = None, **broker: str) -> LogConfig:
    return LogConfig.of(KafkaConfig.parse({name.replace("_", "."): text for name, text in broker.items()}), overrides)


def test_defaults_are_kafkas() -> None:
    config = log_config()
    assert config.segment_bytes == 1 << 30
    assert config.segment_ms == config.retention_ms == 7 * 24 * 3_600_000
    assert config.cleanup_policy == {"delete"}
    assert config.min_in_sync_replicas == 1
    assert config.message_timestamp_after_max_ms == 2**63 - 1


def test_table_agrees_with_the_defaults_of_the_broker() -> None:
    values = topic_values(KafkaConfig.parse({}), {})
    assert values == {name: key.key.default for name, key in TOPIC_CONFIG_KEYS.items()}
    assert len(values) == 37  # Kafka 3.9's 36, and record.validation


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_finer_broker_setting_wins(broker: dict[str, str], retention_ms: int) -> None:
    assert LogConfig.of(KafkaConfig.parse(broker)).retention_ms == retention_ms


def test_overrides_win_over_the_broker() -> None:
    config = log_config({"cleanup.policy": "compact, delete", "segment.ms": "9"}, log_cleanup_policy="compact")
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted
    assert config.is_deleted_by_age_or_size
    assert config.segment_ms == 9


def test_old_timestamp_limit_fills_in_for_the_new_ones() -> None:
    config = log_config({"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "7"})
    assert config.message_timestamp_before_max_ms == 5
    assert config.message_timestamp_after_max_ms == 7


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"segment.bytes": "13"}, "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        (
            {"cleanup.policy": "delete,shred"},
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"retention": "1"}, "Unknown topic config name: retention"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "2"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (2)",
        ),
    ],
)
def test_refuses_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_config(overrides)
    assert str(caught.value) == message


def test_throttled_replicas() -> None:
    validate_topic_config({"leader.replication.throttled.replicas": "0:1,2:3"})
    validate_topic_config({"follower.replication.throttled.replicas": "*"})
    with pytest.raises(ConfigError, match="must be the literal"):
        validate_topic_config({"leader.replication.throttled.replicas": "0-1"})
    listed = LogConfig.of(KafkaConfig.parse({}), {"leader.replication.throttled.replicas": "0:1,02:3"})
    assert [listed.leader_throttled_replicas.covers(*each) for each in ((0, 1), (2, 3), (0, 3))] == [True, True, False]
    assert not listed.follower_throttled_replicas.covers(0, 1)
