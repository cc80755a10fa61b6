"""What topics leave to the broker follows the broker; what they set themselves stays."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from barnabas.broker.reconfigurable_parts import DynamicLogs
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.settings.topic_log_configs import TopicLogConfigs
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.metadata.stored_configs import ALL_BROKERS
from barnabas.protocol.topic_partition import TopicPartition

OVERRIDES = {"orders": {}, "payments": {"max.message.bytes": "77"}, "no-topic-of-ours": {}}
UNCLEAN = "unclean.leader.election.enable"


class Log(NamedTuple):
    topic_partition: TopicPartition


class Logs:
    """Two logs of one topic and one of another; notes what they are given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, LogConfig]] = []

    def all_logs(self) -> list[Log]:
        return [Log(TopicPartition(*place)) for place in (("orders", 0), ("orders", 1), ("payments", 0))]

    def update_log_config(self, topic: str, config: LogConfig) -> None:
        self.given.append((topic, config))


class Store:
    """Has the topics' own settings."""

    def topic_overrides(self, topic: str) -> dict[str, str]:
        return OVERRIDES[topic]


class Broker:
    """Its settings, its logs, and how often unclean elections have become allowed."""

    def __init__(self) -> None:
        self.dynamic = DynamicBrokerConfig(KafkaConfig.parse({"log.retention.hours": "2"}))
        self.dynamic.load(lambda _entity: {}, 7)
        self.logs = Logs()
        self.allowed = 0
        store: Any = Store()
        logs: Any = self.logs
        topics = TopicLogConfigs(store, lambda: self.dynamic.current)
        self.dynamic.add_reconfigurable(DynamicLogs(logs, topics, self._allow))

    def _allow(self) -> None:
        self.allowed += 1


def test_every_topic_with_a_log_is_told_once() -> None:
    broker = Broker()
    broker.dynamic.entity_changed(ALL_BROKERS, {"message.max.bytes": "5000", "log.retention.ms": "6000"})
    given = dict(broker.logs.given)
    assert sorted(topic for topic, _ in broker.logs.given) == ["orders", "payments"]
    assert {topic: config.max_message_bytes for topic, config in given.items()} == {"orders": 5000, "payments": 77}
    assert {config.retention_ms for config in given.values()} == {6000}, "and not the hours of the file"
    broker.logs.given.clear()
    broker.dynamic.entity_changed("7", {"num.io.threads": "9"})
    assert broker.logs.given == []
    broker.dynamic.entity_changed(ALL_BROKERS, {})
    assert {config.retention_ms for _, config in broker.logs.given} == {7_200_000}


def test_unclean_elections_are_looked_for_when_they_become_allowed() -> None:
    broker = Broker()
    broker.dynamic.entity_changed(ALL_BROKERS, {UNCLEAN: "true"})
    broker.dynamic.entity_changed(ALL_BROKERS, {UNCLEAN: "true", "message.max.bytes": "5000"})
    assert broker.allowed == 1
    broker.dynamic.entity_changed("7", {UNCLEAN: "false"})
    broker.dynamic.entity_changed("7", {})
    assert broker.allowed == 2


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("log.local.retention.ms", "-1", "Value must not be -1 as log.retention.ms value is set as 7200000"),
        ("log.local.retention.ms", "7200001", "Value must not be more than log.retention.ms property value: 7200000"),
    ],
)
def test_no_more_stays_local_than_is_kept(name: str, value: str, complaint: str) -> None:
    broker = Broker()
    with pytest.raises(ConfigError, match=complaint):
        broker.dynamic.validate({name: value}, per_broker=True)
    broker.dynamic.validate({name: "7200000"}, per_broker=True)
    broker.dynamic.validate({name: value, "log.retention.ms": "-1"}, per_broker=True)


def test_after_the_stop_nothing_follows() -> None:
    broker = Broker()
    broker.dynamic.stop()
    broker.dynamic.entity_changed(ALL_BROKERS, {"message.max.bytes": "5000"})
    assert broker.logs.given == []
