"""The topics of coordinators: how many replicas they get, and what is said where they cannot be created."""

from __future__ import annotations

import logging

import pytest

from barnabas.config.kafka_config import KafkaConfig
from barnabas.metadata.auto_topic_creation import AutoTopicCreation, InternalTopicsConfig
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from tests.support.inline_store import RegisteredBrokers

TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
CLUSTER = {"zookeeper.connect": "store:2181"}


def creation_in(fixture: RegisteredBrokers, settings: dict[str, str]) -> AutoTopicCreation:
    config = InternalTopicsConfig.from_kafka_config(KafkaConfig.parse(settings))
    return AutoTopicCreation(fixture.admin, fixture.cache, config)


def test_on_a_lone_broker_kafkas_factors_are_capped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    lone = RegisteredBrokers({0: None})
    creation = creation_in(lone, {"min.insync.replicas": "2"})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            creation.create(TOPICS)
    for topic in TOPICS:
        (found,) = lone.zk.topics.assignments([topic])
        assert {each.replicas for each in found.assignment.values()} == {(0,)}
        assert creation.obstacle(topic) is None
        settings = lone.zk.configs.entity(ConfigEntityType.TOPIC, topic)
        assert settings["min.insync.replicas"] == "1", "with more, nothing could ever be committed"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(TOPICS)
    for topic, line in zip(TOPICS, lines, strict=True):
        assert line.startswith(f"{topic} has one replica and not 3 (")
        assert line.endswith(".replication.factor): a broker without ZooKeeper is never joined by another one")


def test_a_lone_broker_whose_settings_say_one_has_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    creation = creation_in(RegisteredBrokers({0: None}), dict.fromkeys(names, "1"))
    creation.create(TOPICS)
    assert not caplog.records


def test_a_cluster_that_is_too_small_says_why_and_logs_it_once(caplog: pytest.LogCaptureFixture) -> None:
    creation = creation_in(RegisteredBrokers({0: None, 1: None}), CLUSTER)
    for _ in range(3):
        assert creation.create(TOPICS) == dict.fromkeys(TOPICS, ErrorCode.INVALID_REPLICATION_FACTOR)
    for topic in TOPICS:
        obstacle = creation.obstacle(topic)
        assert obstacle is not None
        assert "Number of alive brokers '2' does not meet the required replication factor '3' for " + topic in obstacle
        assert "replication.factor')" in obstacle
    assert len(caplog.records) == len(TOPICS)


def test_a_cluster_that_is_large_enough_has_what_the_settings_say() -> None:
    cluster = RegisteredBrokers(dict.fromkeys(range(3)))
    creation = creation_in(cluster, CLUSTER)
    assert creation.create(TOPICS) == dict.fromkeys(TOPICS, ErrorCode.NONE)
    for topic in TOPICS:
        (found,) = cluster.zk.topics.assignments([topic])
        assert {len(each.replicas) for each in found.assignment.values()} == {3}
