"""Other people's admin clients list, describe and delete groups, and read, change and delete their offsets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonTopicPartition

from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import CLIENT_ID, RawClient, make_batch
from tests.support.raw_group_member import await_coordinator, classic_member, consumer_member
from tests.support.server_fixtures import AGAINST, Server

SECONDS = 60


@pytest.fixture
def created(server: Server, topic: str) -> str:
    """A topic of two partitions with a record in each; its name is a group's too."""
    with RawClient(server) as client:
        client.create_topic(topic, partitions=2)
        for partition in range(2):
            client.produce(topic, make_batch([b"a record"]), partition=partition)
        await_coordinator(client, topic)
    return topic


def committed(confluent: AdminClient, group: str) -> dict[int, int]:
    """Offsets by partition, as confluent-kafka reads them."""
    (future,) = confluent.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {place.partition: place.offset for place in future.result(SECONDS).topic_partitions}


def test_confluent_kafka(confluent: AdminClient, server: Server, created: str) -> None:
    places = [ConfluentTopicPartition(created, 0, 5), ConfluentTopicPartition(created, 1, 7)]
    wanted = ConsumerGroupTopicPartitions(created, places)
    (altered,) = confluent.alter_consumer_group_offsets([wanted]).values()
    assert [place.error for place in altered.result(SECONDS).topic_partitions] == [None, None]
    assert committed(confluent, created) == {0: 5, 1: 7}
    (described,) = confluent.describe_consumer_groups([created]).values()
    assert described.result(SECONDS).state == ConsumerGroupState.EMPTY
    with classic_member(server, created, [TopicPartition(created, 1)], instance_id="fixed"):
        listed = confluent.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(SECONDS)
        assert created in [group.group_id for group in listed.valid]
        (described,) = confluent.describe_consumer_groups([created], include_authorized_operations=True).values()
        group = described.result(SECONDS)
        (member,) = group.members
        assert (group.state, group.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        assert (member.client_id, member.group_instance_id) == (CLIENT_ID, "fixed")
        assert [place.partition for place in member.assignment.topic_partitions] == [1]
        assert group.authorized_operations
        (refused,) = confluent.delete_consumer_groups([created]).values()
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            refused.result(SECONDS)
        (altered,) = confluent.alter_consumer_group_offsets([wanted]).values()
        errors = [place.error.name() for place in altered.result(SECONDS).topic_partitions]
        assert errors == ["UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"]
    (deleted,) = confluent.delete_consumer_groups([created]).values()
    assert deleted.result(SECONDS) is None
    assert committed(confluent, created) == {}


@pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 in ZooKeeper mode has no consumer protocol")
def test_confluent_kafka_and_the_consumer_protocol(confluent: AdminClient, server: Server, created: str) -> None:
    with consumer_member(server, created, [created]):
        listed = confluent.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(SECONDS)
        assert created in [group.group_id for group in listed.valid]
        (described,) = confluent.describe_consumer_groups([created]).values()
        group = described.result(SECONDS)
        (member,) = group.members
        assert (group.type, group.partition_assignor) == (ConsumerGroupType.CONSUMER, "uniform")
        assert {place.partition for place in member.assignment.topic_partitions} == {0, 1}


def test_kafka_python(python: KafkaAdminClient, server: Server, created: str) -> None:
    first, second = PythonTopicPartition(created, 0), PythonTopicPartition(created, 1)
    python.alter_group_offsets(
        created, {first: OffsetAndMetadata(5, "so far", -1), second: OffsetAndMetadata(7, "", -1)}
    )
    offsets = python.list_group_offsets({created: [first, second]})[created]
    assert {place: (each.offset, each.metadata) for place, each in offsets.items()} == {
        first: (5, "so far"),
        second: (7, ""),
    }
    python.delete_group_offsets(created, [second])
    assert set(python.list_group_offsets([created])[created]) == {first}
    with classic_member(server, created, [TopicPartition(created, 0)]):
        assert created in [group["group_id"] for group in python.list_groups(states_filter=["Stable"])]
        group = python.describe_groups([created])[created]
        assert (group["group_state"], group["protocol_data"], len(group["members"])) == ("Stable", "range", 1)
    assert python.describe_groups([created])[created]["group_state"] == "Empty"
    python.delete_groups([created])
    assert created not in [group["group_id"] for group in python.list_groups()]


def test_aiokafka(server: Server, created: str) -> None:
    async def look() -> tuple[Any, Any, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
        await admin.start()
        try:
            groups = await admin.list_consumer_groups()
            (described,) = await admin.describe_consumer_groups([created])
            return groups, described, await admin.list_consumer_group_offsets(created)
        finally:
            await admin.close()

    with classic_member(server, created, [TopicPartition(created, 0)]):
        groups, described, offsets = asyncio.run(look())
    assert created in [group[0] for group in groups]
    (group,) = described.groups
    assert (group[1], group[2]) == (created, "Stable")
    assert offsets == {}
