"""confluent-kafka's cases of transactions, commits and administration (tests/integration), in the calls of ours.

Each test has the name of its case. Without a counterpart:

| case | why |
|---|---|
| access control lists in test_basic_operations | `Admin` has no calls for them |
| alter_configs there | deprecated; ours has `incremental_alter_configs` |
| the rejected null character in test_consumer_topicpartition_metadata | a limit of C strings: any text is kept here |
| test_consumer_error, `enable.partition.eof`, error events of `poll` | `poll` returns records only, and raises |
| test_stats_cb | `metrics()` has the numbers |
| test_consumer_store_offset | ours has no `store_offsets` (docs/clients.md) |
| test_consumer_memberid, test_producer_clusterid | `group_metadata()` and `Admin.describe_cluster()` have them |
| test_incremental_assign, test_cooperative_rebalance_* | the consumer assigns by itself; test_barnabas_group has them |
| schema registry | no part of Kafka |
"""

from __future__ import annotations

import pytest

from barnabas.clients.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from barnabas.clients.consumer import Consumer, OffsetAndMetadata, TopicPartition
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.cases.conftest import PARTITIONS
from tests.clients.cases.records import read, read_committed, send_numbers
from tests.clients.each_broker.each_broker import eventually


def transact(producer: Producer, topic: str, count: int) -> None:
    """Begin a transaction and send records in it."""
    producer.begin_transaction()
    for number in range(count):
        producer.send(topic, b"test-data%d" % number)
    producer.flush()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([(100, True)], 100), ([(100, False)], 0), ([(100, False), (25, True)], 25)],
    ids=["test_commit_transaction", "test_abort_transaction", "test_abort_retry_commit_transaction"],
)
def test_transactions(broker: str, topic: str, name: str, steps: list[tuple[int, bool]], expected: int) -> None:
    with Producer(broker, transactional_id=name) as producer:
        producer.init_transactions()
        for count, commits in steps:
            transact(producer, topic, count)
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    assert len(read_committed(broker, topic, PARTITIONS)) == expected


def test_send_offsets_committed_transaction(broker: str, admin: Admin, topic: str, name: str) -> None:
    source = f"{name}-source"
    place = TopicPartition(source, 0)
    admin.create_topics([NewTopic(source, 1, 1)])
    send_numbers(broker, source, range(100))
    settings = {"group_id": name, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(broker, **settings) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([source])
        read(consumer, 100)
        with Producer(broker, transactional_id=name) as producer:
            producer.init_transactions()
            transact(producer, topic, 100)
            positions = {each: consumer.position(each) for each in consumer.assignment()}
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            producer.commit_transaction()
        # As the case does: a second producer of the id waits until the first one's transaction is complete.
        with Producer(broker, transactional_id=name) as second:
            second.init_transactions()
        (committed,) = consumer.committed([place]).values()
        assert committed is not None
        assert committed.offset == 100
    assert len(read_committed(broker, topic, PARTITIONS)) == 100


@pytest.mark.parametrize("metadata", ["", "hello world", "नमस्ते दुनिया", "xyz\x00abc"])
def test_consumer_topicpartition_metadata(broker: str, topic: str, name: str, metadata: str) -> None:
    place = TopicPartition(topic, 0)
    with Consumer(broker, group_id=name) as consumer:
        consumer.commit_sync({place: OffsetAndMetadata(1, metadata)})
        assert consumer.committed([place]) == {place: OffsetAndMetadata(1, metadata)}


def test_basic_operations(broker: str, admin: Admin, name: str) -> None:
    resource = ConfigResource.topic(name)
    wanted = NewTopic(name, 2, 1, {"compression.type": "gzip"})
    admin.create_topics([wanted], validate_only=True)
    assert name not in admin.list_topics()
    admin.create_topics([wanted])
    eventually(lambda: name in admin.list_topics(), bool)
    assert len(admin.describe_topics([name])[name].partitions) == 2
    admin.create_partitions({name: NewPartitions(5)})
    eventually(lambda: len(admin.describe_topics([name])[name].partitions), lambda count: count == 5)

    headers = [("foo1", b"bar"), ("foo1", b"bar2"), ("Jämtland", "Härjedalen".encode()), ("null", None), ("empty", b"")]
    with Producer(broker) as producer:
        producer.send(name, b"Hello Python!", headers=headers)
        producer.send(name, None, b"Just a key and headers", headers)
    groups = [f"{name}-{number}" for number in (1, 2)]
    for group_id in groups:
        settings = {"group_id": group_id, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        with Consumer(broker, **settings) as consumer:  # type: ignore[arg-type]
            consumer.subscribe([name])
            records = read(consumer, 2)
            assert {(record.key, record.value) for record in records} == {
                (None, b"Hello Python!"),
                (b"Just a key and headers", None),
            }
            assert all([tuple(header) for header in record.headers] == headers for record in records)
            consumer.commit_sync()
    assert set(groups) <= {group.group_id for group in admin.list_groups()}
    assert not set(groups) & {group.group_id for group in admin.list_groups(states=["Stable"])}
    assert not set(groups) & {group.group_id for group in admin.list_groups(types=["consumer"])}

    committed = admin.list_group_offsets(groups[0])
    assert sum(each.offset for each in committed.values()) == 2
    assert admin.alter_group_offsets(groups[0], dict.fromkeys(committed, 0)) == dict.fromkeys(committed)
    assert {each.offset for each in admin.list_group_offsets(groups[0], list(committed)).values()} == {0}

    changes = {"file.delete.delay.ms": "12345", "compression.type": "snappy"}
    assert admin.describe_topic_configs(name)["compression.type"].value == "gzip"
    admin.incremental_alter_configs(
        resource, [ConfigChange(setting, ConfigOperation.SET, value) for setting, value in changes.items()]
    )
    found = admin.describe_topic_configs(name)
    assert {setting: found[setting].value for setting in changes} == changes
    assert admin.delete_groups(groups) == dict.fromkeys(groups)
    admin.delete_topics([name])
    assert name not in admin.list_topics()


def test_list_offsets(broker: str, admin: Admin, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with Producer(broker) as producer:
        for timestamp_ms in (1_000, 3_000, 2_000):
            producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms).result(30)
    for wanted, offset in ((-2, 0), (-1, 3), (-3, 1), (1_500, 1), (4_000, -1)):
        assert admin.list_offsets({place: wanted})[place].offset == offset, wanted


def test_delete_records(broker: str, admin: Admin, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send_numbers(broker, topic, range(3))
    assert admin.list_offsets({place: -2})[place].offset == 0
    assert admin.delete_records({place: 2}) == {place: 2}
    assert admin.list_offsets({place: -2})[place].offset == 2
    with pytest.raises(ApiError) as raised:
        admin.delete_records({place: 4})
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_describe_operations(broker: str, admin: Admin, topic: str, name: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller_id in {node.id for node in cluster.nodes}
    assert [each.partition for each in admin.describe_topics([topic])[topic].partitions] == list(range(PARTITIONS))
    send_numbers(broker, topic, range(1))
    with Consumer(broker, group_id=name, client_id="described", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        read(consumer, 1)
        description = admin.describe_groups([name])[name]
        assert (description.state, description.type, description.assignor) == ("Stable", "classic", "range")
        (member,) = description.members
        assert member.client_id == "described"
        assert {place.partition for place in member.assignment} == set(range(PARTITIONS))
    assert admin.describe_groups([name])[name].state == "Empty"
