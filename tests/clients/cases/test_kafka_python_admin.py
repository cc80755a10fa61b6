"""kafka-python's cases of its admin client (test/integration/test_admin_integration.py), in the calls of ours.

Each test has the name of its case. Without a counterpart, or elsewhere:

| case, or part of one | why |
|---|---|
| test_describe_configs_invalid_broker_id_raises | `ConfigResource.broker` takes a number; mypy rejects a text |
| error codes in the results of create_topics, delete_topics and delete_records | ours raises ApiError instead |
| test_describe_configs_mixed_resources_returns_configs in one call | a call describes one resource: two calls |
| test_alter_replica_log_dirs | tests/broker/test_log_dir_moves.py; the call of `Admin`: tests/clients/each_broker |
| test_describe_metadata_quorum | of KRaft controllers only, which the package does not have |
| test_describe_topic_partitions_pagination | `describe_topics` returns whole topics; the broker's pages: tests/broker |
| test_sasl_integration.py: its three cases | tests/security/test_our_sasl_clients.py |
| test_ssl_integration.py | tests/security/test_our_ssl_clients.py, test_ssl_listeners.py |
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from barnabas.clients.admin import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    ConfigResource,
    ElectionType,
    NewPartitions,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.testing import broker as broker_with
from tests.clients.cases.conftest import PARTITIONS
from tests.clients.cases.records import PATIENCE_SECONDS, read, send_numbers


def join(stack: ExitStack, broker: str, group_id: str, topic: str, count: int = 1) -> list[Consumer]:
    """Make members of a group, each with a part of the topic."""
    members = [
        stack.enter_context(
            Consumer(broker, group_id=group_id, auto_offset_reset="earliest", heartbeat_interval_ms=100)
        )
        for _ in range(count)
    ]
    for member in members:
        member.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(len(member.assignment()) for member in members) != PARTITIONS or not all(
        member.assignment() for member in members
    ):
        assert time.monotonic() < deadline, "the group did not settle"
        for member in members:
            member.poll(20, 1)
    return members


def test_describe_configs_broker_resource_returns_configs(admin: Admin) -> None:
    (node,) = admin.describe_cluster().nodes
    configs = admin.describe_configs(ConfigResource.broker(node.id))
    assert configs["num.partitions"].value == "2"


def test_describe_configs_topic_resource_returns_configs(admin: Admin, topic: str) -> None:
    configs = admin.describe_configs(ConfigResource.topic(topic))
    assert configs["cleanup.policy"].value == "delete"


def test_describe_configs_mixed_resources_returns_configs(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().nodes
    of_topic, of_broker = (
        admin.describe_configs(each) for each in (ConfigResource.topic(topic), ConfigResource.broker(node.id))
    )
    assert "retention.ms" in of_topic.keys() - of_broker.keys()
    assert "log.retention.ms" in of_broker.keys() - of_topic.keys()


def test_describe_group_exists(broker: str, admin: Admin, topic: str, name: str) -> None:
    groups = {f"{name}-1": 2, f"{name}-2": 1}
    with ExitStack() as stack:
        for group_id, count in groups.items():
            join(stack, broker, group_id, topic, count)
        described = admin.describe_groups(list(groups))
        assert {group_id: len(described[group_id].members) for group_id in described} == groups
        for group in described.values():
            assert {place.topic for member in group.members for place in member.assignment} == {topic}


def test_delete_groups(broker: str, admin: Admin, topic: str, name: str) -> None:
    group_ids = {f"{name}-{number}" for number in (1, 2, 3)}
    first, second, kept = sorted(group_ids)
    send_numbers(broker, topic, range(100))
    for group_id in group_ids:
        with Consumer(broker, group_id=group_id, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            assert read(consumer, 1, 1)
    assert group_ids <= {group.group_id for group in admin.list_groups()}
    assert admin.delete_groups([first, second]) == {first: None, second: None}
    assert group_ids & {group.group_id for group in admin.list_groups()} == {kept}


def test_delete_groups_with_errors(broker: str, admin: Admin, topic: str, name: str) -> None:
    empty, in_use, unknown = (f"{name}-{number}" for number in (1, 2, 3))
    send_numbers(broker, topic, range(100))
    with Consumer(broker, group_id=empty, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert read(consumer, 1, 1)
    with ExitStack() as stack:
        join(stack, broker, in_use, topic)
        results = admin.delete_groups([empty, in_use, unknown])
        assert {group_id: error and error.code for group_id, error in results.items()} == {
            empty: None,
            in_use: ErrorCode.NON_EMPTY_GROUP,
            unknown: ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert {empty, in_use, unknown} & {group.group_id for group in admin.list_groups()} == {in_use}


def test_delete_records(broker: str, admin: Admin, topic: str) -> None:
    other = f"{topic}-2"
    admin.create_topics([NewTopic(other, PARTITIONS, 1)])
    places = [TopicPartition(each, partition) for each in (topic, other) for partition in range(3)]
    for place in places:
        send_numbers(broker, place.topic, range(100), place.partition)
    before = {places[0]: -1, places[1]: 50, places[3]: 40, places[5]: 30}
    assert admin.delete_records(before) == before | {places[0]: 100}
    with Consumer(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        records = read(consumer, 600 - 100 - 50 - 40 - 30)
        assert consumer.poll(200) == []
    for place, first in zip(places, (100, 50, 0, 40, 0, 30), strict=True):
        offsets = [record.offset for record in records if (record.topic, record.partition) == place]
        assert offsets == list(range(first, 100))


def test_delete_records_with_errors(broker: str, admin: Admin, topic: str, name: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    send_numbers(broker, topic, range(1), 2)
    # An unknown partition may be in creation, so ours waits for it a while, and says so when that time is over.
    with Admin(broker, timeout_ms=300) as hasty:
        for unknown in (TopicPartition(topic, 9999), TopicPartition(f"not-{name}", 0)):
            with pytest.raises(ApiError) as raised:
                hasty.delete_records({unknown: -1})
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for wanted in ({first: 1_000}, {first: 1_000, second: 1_000}):
        with pytest.raises(ApiError) as raised:
            admin.delete_records(wanted)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_create_delete_topics(admin: Admin, name: str) -> None:
    assert admin.create_topics([NewTopic(name, 1, 1)]).keys() == {name}
    admin.delete_topics([name])
    assert name not in admin.list_topics()


def test_elect_leaders(admin: Admin, topic: str) -> None:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    # kafka-python raises ElectionNotNeededError; ours leaves such partitions out, as Java does.
    assert admin.elect_leaders(ElectionType.PREFERRED, places) == {}


def test_create_partitions(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().nodes
    admin.create_partitions({topic: NewPartitions(PARTITIONS + 2, [[node.id], [node.id]])})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(admin.describe_topics([topic])[topic].partitions) != PARTITIONS + 2:
        assert time.monotonic() < deadline, "the new partitions did not appear"
        time.sleep(0.05)


def test_describe_log_dirs(admin: Admin) -> None:
    for node in admin.describe_cluster().nodes:
        directories = admin.describe_log_dirs(node.id)
        assert [each.error for each in directories] == [ErrorCode.NONE]
        assert directories[0].path


def test_alter_partition_reassignments(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().nodes
    place = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({place: [node.id]}) == {place: None}


def test_list_partition_reassignments(admin: Admin, topic: str) -> None:
    # kafka-python asks for all reassignments too: here other cases may have begun some.
    assert admin.list_partition_reassignments([TopicPartition(topic, 0)]) == {}


def test_describe_topic_partitions(admin: Admin, topic: str) -> None:
    described = admin.describe_topics([topic])
    assert described.keys() == {topic}
    assert [each.partition for each in described[topic].partitions] == list(range(PARTITIONS))
    (node,) = admin.describe_cluster().nodes
    for partition in described[topic].partitions:
        assert partition.leader == node.id
        assert list(partition.replicas) == [node.id]


def test_list_partition_offsets(broker: str, admin: Admin, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert admin.list_offsets({place: -1})[place].offset == 0
    send_numbers(broker, topic, range(3))
    assert admin.list_offsets({place: -1})[place].offset == 3


def test_list_config_resources(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().nodes
    if ApiKey.LIST_CONFIG_RESOURCES not in admin.describe_features(node.id).api_versions:
        pytest.skip("Apache Kafka has ListConfigResources since 4.1")
    resources = admin.list_config_resources()
    assert {ConfigResource.broker(node.id), ConfigResource.topic(topic)} <= set(resources)


def test_create_describe_delete_acls() -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, "topic", PatternType.LITERAL)
    binding = AclBinding(pattern, AccessControlEntry("User:test", "*", AclOperation.READ, AclPermissionType.ALLOW))
    of_topic = AclBindingFilter(
        ResourcePatternFilter(ResourceType.TOPIC, "topic", PatternType.LITERAL),
        AccessControlEntryFilter(None, "*", AclOperation.ANY, AclPermissionType.ANY),
    )
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with (
        broker_with(authorizer_class_name=authorizer, super_users="User:ANONYMOUS") as secured,
        Admin(secured.bootstrap_servers) as admin,
    ):
        assert admin.describe_acls(of_topic) == []
        assert admin.create_acls([binding]) == {binding: None}
        assert admin.describe_acls(of_topic) == [binding]
        (deleted,) = admin.delete_acls([of_topic]).values()
        assert (deleted.error, deleted.acls, deleted.failures) == (None, (binding,), {})
        assert admin.describe_acls(of_topic) == []
