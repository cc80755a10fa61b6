"""Other people's admin clients add partitions, elect leaders, move replicas, and ask what the cluster is and can do."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA, Server

SECONDS = 60


@pytest.fixture
def created(server: Server, topic: str) -> str:
    """A topic of two partitions."""
    with RawClient(server) as client:
        client.create_topic(topic, partitions=2)
    return topic


def test_confluent_kafka_adds_partitions(confluent: AdminClient, created: str) -> None:
    (done,) = confluent.create_partitions([NewPartitions(created, 4)]).values()
    done.result(SECONDS)
    (described,) = confluent.describe_topics(TopicCollection([created])).values()
    partitions = described.result(SECONDS).partitions
    assert [(each.id, each.leader.id, [node.id for node in each.isr]) for each in partitions] == [
        (index, 0, [0]) for index in range(4)
    ]
    (refused,) = confluent.create_partitions([NewPartitions(created, 3)]).values()
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        refused.result(SECONDS)


def test_confluent_kafka_elects_leaders(confluent: AdminClient, created: str) -> None:
    elected = confluent.elect_leaders(ElectionType.PREFERRED, [TopicPartition(created, 0)]).result(SECONDS)
    (error,) = elected.values()
    assert error is None or error.name() == "ELECTION_NOT_NEEDED"


def test_confluent_kafka_describes_the_cluster(server: Server, confluent: AdminClient) -> None:
    described = confluent.describe_cluster(include_authorized_operations=True).result(SECONDS)
    assert described.controller.id == 0
    assert [(node.id, node.host, node.port) for node in described.nodes] == [(0, server.host, server.port)]
    assert len(described.authorized_operations) == 7


def test_kafka_python_adds_partitions_and_elects_leaders(python: KafkaAdminClient, created: str) -> None:
    python.create_partitions({created: {"count": 3, "assignments": [[0]]}})
    described: Any = python.describe_topics([created])
    assert len(described[0]["partitions"]) == 3
    python.elect_leaders(0, {created: [0, 1, 2]}, raise_errors=False)
    with pytest.raises(KafkaError):
        python.create_partitions({created: 2})


def test_kafka_python_moves_replicas(python: KafkaAdminClient, created: str) -> None:
    first, second = (PythonTopicPartition(created, index) for index in (0, 1))
    accepted = python.alter_partition_reassignments({first: [0]})
    assert accepted == {first: None}
    refused = python.alter_partition_reassignments({second: [0, 7]})
    assert refused[second] is not None
    nothing = python.alter_partition_reassignments({second: None})
    assert nothing[second].__name__ == "NoReassignmentInProgressError"
    assert python.list_partition_reassignments({created: [0, 1]}) == {}


def test_kafka_python_asks_for_features(python: KafkaAdminClient) -> None:
    # Kafka 3.9 with ZooKeeper has none; ours has one, which is not in force before it is raised.
    expected: dict[str, Any] = {} if AGAINST_KAFKA else {"transaction.version": {"supported": (0, 2)}}
    assert python.describe_features() == expected


@pytest.mark.skipif(AGAINST_KAFKA, reason="APIs of KRaft")
def test_kafka_python_pages_through_partitions(python: KafkaAdminClient, created: str) -> None:
    described: Any = python.describe_topic_partitions([created], response_partition_limit=1)
    assert created in str(described)
    resources: Any = python.list_config_resources()
    assert created in str(resources)
