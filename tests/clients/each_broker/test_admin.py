"""The admin client: topics, partitions, settings, quotas, groups and their offsets, records, leaders, the cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from barnabas.clients.admin import (
    DEFAULT,
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ElectionType,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    QuotaEntity,
)
from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.producer import Producer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigSource
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.each_broker.each_broker import BARNABAS, EachBroker, eventually, poll_records


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        call()
    return raised.value.code


def test_topics(broker: EachBroker, admin: Admin, name: str) -> None:
    wanted = NewTopic(name, 3, 1, {"retention.ms": "12345"})
    checked = admin.create_topics([wanted], validate_only=True)[name]
    assert (checked.num_partitions, checked.replication_factor) == (3, 1)
    assert name not in admin.list_topics()
    created = admin.create_topics([wanted])[name]
    eventually(lambda: name in admin.list_topics(), bool)
    description = admin.describe_topics([name])[name]
    assert (description.topic_id, description.is_internal) == (created.topic_id, False)
    assert [(each.partition, each.leader, each.replicas, each.isr) for each in description.partitions] == [
        (partition, broker.node_id, (broker.node_id,), (broker.node_id,)) for partition in range(3)
    ]
    assert code_of(lambda: admin.create_topics([wanted])) is ErrorCode.TOPIC_ALREADY_EXISTS
    admin.delete_topics([name])
    eventually(lambda: name in admin.list_topics(), lambda found: not found)
    assert code_of(lambda: admin.delete_topics([name])) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(lambda: admin.describe_topics([name])) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": {"no.such.setting": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        (
            {"num_partitions": -1, "replication_factor": -1, "assignments": {1: [0]}},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_topics_that_cannot_be(admin: Admin, name: str, change: dict[str, object], expected: ErrorCode) -> None:
    arguments = {"name": name, "num_partitions": 1, "replication_factor": 1} | change
    code = code_of(lambda: admin.create_topics([NewTopic(**arguments)]))  # type: ignore[arg-type]
    assert code is expected
    assert name not in admin.list_topics()


def test_partitions(broker: EachBroker, admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name, assignments={0: [broker.node_id], 1: [broker.node_id]})])
    admin.create_partitions({name: NewPartitions(4)}, validate_only=True)
    eventually(lambda: len(admin.describe_topics([name])[name].partitions), lambda count: count == 2)
    admin.create_partitions({name: NewPartitions(4, [[broker.node_id], [broker.node_id]])})
    eventually(lambda: len(admin.describe_topics([name])[name].partitions), lambda count: count == 4)
    for count in (4, 3, 0):
        change = {name: NewPartitions(count)}
        assert code_of(lambda change=change: admin.create_partitions(change)) is ErrorCode.INVALID_PARTITIONS  # type: ignore[misc]
    unknown = {f"not-{name}": NewPartitions(2)}
    assert code_of(lambda: admin.create_partitions(unknown)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_a_topic(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)

    def value(name: str) -> str | None:
        return admin.describe_configs(resource, [name])[name].value

    def change(name: str, operation: ConfigOperation, value: str | None = None, *, check: bool = False) -> None:
        admin.incremental_alter_configs(resource, [ConfigChange(name, operation, value)], validate_only=check)

    default = value("retention.ms")
    change("retention.ms", ConfigOperation.SET, "54321", check=True)
    assert value("retention.ms") == default
    change("retention.ms", ConfigOperation.SET, "54321")
    eventually(lambda: value("retention.ms"), lambda found: found == "54321")
    assert admin.describe_topic_configs(topic)["retention.ms"].source == ConfigSource.TOPIC
    change("retention.ms", ConfigOperation.DELETE)
    eventually(lambda: value("retention.ms"), lambda found: found == default)
    change("cleanup.policy", ConfigOperation.APPEND, "compact")
    eventually(lambda: value("cleanup.policy"), lambda found: found == "delete,compact")
    change("cleanup.policy", ConfigOperation.SUBTRACT, "delete")
    eventually(lambda: value("cleanup.policy"), lambda found: found == "compact")
    invalid = ErrorCode.INVALID_CONFIG
    assert code_of(lambda: change("retention.ms", ConfigOperation.SET, "soon")) is invalid
    assert code_of(lambda: change("retention.ms", ConfigOperation.APPEND, "1")) is invalid
    assert code_of(lambda: change("no.such.setting", ConfigOperation.SET, "1")) is invalid


def test_settings_of_a_broker(broker: EachBroker, admin: Admin) -> None:
    resource = ConfigResource.broker(broker.node_id)
    name = "message.max.bytes"

    def entry() -> tuple[str | None, int]:
        found = admin.describe_broker_configs(broker.node_id)[name]
        return found.value, found.source

    before = entry()
    admin.incremental_alter_configs(resource, [ConfigChange(name, ConfigOperation.SET, "2000000")])
    eventually(entry, lambda found: found == ("2000000", ConfigSource.DYNAMIC_BROKER))
    admin.incremental_alter_configs(resource, [ConfigChange(name, ConfigOperation.DELETE)])
    eventually(entry, lambda found: found == before)
    refused = code_of(lambda: admin.incremental_alter_configs(resource, [ConfigChange(name, ConfigOperation.SET, "x")]))
    assert refused in {ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST}


def test_a_group_and_its_offsets(broker: EachBroker, admin: Admin, topic: str, name: str) -> None:
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.alter_group_offsets(name, {place: 5, other: OffsetAndMetadata(7, "seven")}) == {
        place: None,
        other: None,
    }
    found = admin.list_group_offsets(name)
    assert {each: (offset.offset, offset.metadata) for each, offset in found.items()} == {
        place: (5, ""),
        other: (7, "seven"),
    }
    assert admin.list_group_offsets(name, [other, TopicPartition(topic, 2)]).keys() == {other}
    assert name in [group.group_id for group in admin.list_groups(states=["Empty"])]
    assert name not in [group.group_id for group in admin.list_groups(states=["Stable"])]
    assert admin.describe_groups([name])[name].state == "Empty"
    assert admin.delete_group_offsets(name, [other]) == {other: None}
    assert admin.list_group_offsets(name).keys() == {place}
    assert admin.delete_groups([name]) == {name: None}
    (error,) = admin.delete_groups([name]).values()
    assert error is not None
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert admin.list_group_offsets(name) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member(broker: EachBroker, admin: Admin, topic: str, protocol: str) -> None:
    if protocol == "consumer":
        broker.need_consumer_protocol()
    place = TopicPartition(topic, 0)
    settings = {"group_id": topic, "group_protocol": protocol, "group_instance_id": "me", "client_id": "mine"}
    with Consumer(broker.bootstrap_servers, **settings) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([topic])
        eventually(lambda: (consumer.poll(50), consumer.assignment())[1], lambda found: len(found) == 3)
        consumer.commit_sync({place: OffsetAndMetadata(1)})

        def description() -> object:
            consumer.poll(50)
            group = admin.describe_groups([topic])[topic]
            return (
                group.type,
                group.state,
                [(member.instance_id, member.client_id, len(member.assignment)) for member in group.members],
            )

        eventually(description, lambda found: found == (protocol, "Stable", [("me", "mine", 3)]))
        (listed,) = (group for group in admin.list_groups(types=[protocol]) if group.group_id == topic)
        assert (listed.state, listed.protocol_type) == ("Stable", "consumer")
        other_type = "classic" if protocol == "consumer" else "consumer"
        assert topic not in [group.group_id for group in admin.list_groups(types=[other_type])]
        (error,) = admin.delete_groups([topic]).values()
        assert error is not None
        assert error.code is ErrorCode.NON_EMPTY_GROUP
        (error,) = admin.alter_group_offsets(topic, {place: 0}).values()
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_MEMBER_ID
        (error,) = admin.delete_group_offsets(topic, [place]).values()
        assert error is not None
        assert error.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert admin.remove_group_members(topic, ["me"]) == {"me": None}
    eventually(lambda: admin.describe_groups([topic])[topic].state, lambda state: state == "Empty")
    assert admin.delete_groups([topic]) == {topic: None}


def test_quotas(admin: Admin, name: str) -> None:
    user, both, default = QuotaEntity(user=name), QuotaEntity(user=name, client_id="c"), QuotaEntity(client_id=DEFAULT)
    try:
        admin.alter_client_quotas({user: {"producer_byte_rate": 1e6}}, validate_only=True)
        assert admin.describe_client_quotas(user) == {}
        admin.alter_client_quotas(
            {
                user: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6},
                both: {"request_percentage": 50.0},
                default: {"consumer_byte_rate": 9e9},
            }
        )
        rates = {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
        wanted = {user: rates, both: {"request_percentage": 50.0}}
        eventually(lambda: admin.describe_client_quotas(user), lambda found: found == wanted)
        assert admin.describe_client_quotas(user, strict=True) == {user: rates}
        assert admin.describe_client_quotas(default, strict=True) == {default: {"consumer_byte_rate": 9e9}}
        admin.alter_client_quotas({user: {"producer_byte_rate": None}})
        left = {user: {"consumer_byte_rate": 2e6}}
        eventually(lambda: admin.describe_client_quotas(user, strict=True), lambda found: found == left)
        refused = code_of(lambda: admin.alter_client_quotas({user: {"no_such_rate": 1.0}}))
        assert refused is ErrorCode.INVALID_REQUEST
    finally:
        admin.alter_client_quotas(
            {
                user: {"consumer_byte_rate": None},
                both: {"request_percentage": None},
                default: {"consumer_byte_rate": None},
            }
        )


def test_records_and_replicas(broker: EachBroker, admin: Admin, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(10):
            time_ms = 1_600_000_000_000 - number
            producer.send(topic, b"v" * 100, partition=number % 2, timestamp_ms=time_ms).result(30)
    assert admin.list_offsets({first: -1})[first].offset == 5
    assert admin.list_offsets({first: -3})[first].offset == 0, "the largest timestamp"
    (state,) = admin.describe_producers([first, second])[first]
    assert (state.producer_epoch, state.last_sequence, state.current_transaction_start_offset) == (0, 4, -1)
    assert admin.delete_records({first: 3, second: -1}) == {first: 3, second: 5}
    assert admin.list_offsets({first: -2})[first].offset == 3
    assert code_of(lambda: admin.delete_records({first: 99})) is ErrorCode.OFFSET_OUT_OF_RANGE
    (directory,) = admin.describe_log_dirs(broker.node_id)
    assert directory.error is ErrorCode.NONE
    assert directory.replicas[first].size > 500
    assert not directory.replicas[first].is_future


def test_moves_between_log_directories(broker: EachBroker, admin: Admin, topic: str) -> None:
    here, second, unknown = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"not-{topic}", 0)
    (directory,) = admin.describe_log_dirs(broker.node_id)
    wanted = {here: directory.path, second: "/no/such/directory", unknown: directory.path}
    results = admin.alter_replica_log_dirs(broker.node_id, wanted)
    assert {place: error and error.code for place, error in results.items()} == {
        here: None,
        second: ErrorCode.LOG_DIR_NOT_FOUND,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_leaders_and_reassignments(broker: EachBroker, admin: Admin, topic: str) -> None:
    place, unknown = TopicPartition(topic, 0), TopicPartition(f"not-{topic}", 0)
    assert admin.elect_leaders(ElectionType.PREFERRED, [place]) == {}, "its preferred replica leads already"
    (error,) = admin.elect_leaders(ElectionType.PREFERRED, [unknown]).values()
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.list_partition_reassignments() == {}
    assert admin.alter_partition_reassignments({place: [broker.node_id]}) == {place: None}
    eventually(admin.list_partition_reassignments, lambda found: found == {})
    wanted = {
        place: [broker.node_id, 77],
        TopicPartition(topic, 1): None,
        unknown: [broker.node_id],
    }
    codes = {each: error and error.code for each, error in admin.alter_partition_reassignments(wanted).items()}
    assert codes == {
        place: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        TopicPartition(topic, 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_the_cluster(broker: EachBroker, admin: Admin) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert (cluster.controller_id, [node.id for node in cluster.nodes]) == (broker.node_id, [broker.node_id])
    features = admin.describe_features(broker.node_id)
    assert features.api_versions[ApiKey.PRODUCE][1] >= 9
    assert admin.describe_user_scram_credentials() == {}
    resources = admin.list_config_resources() if broker.name == BARNABAS else []
    assert (ConfigResource.broker(broker.node_id) in resources) == (broker.name == BARNABAS)


def test_a_closed_client_says_so(broker: EachBroker, topic: str) -> None:
    with closing(Admin(broker.bootstrap_servers)) as admin:
        assert topic in admin.list_topics()
    with pytest.raises(RuntimeError, match="closed"):
        admin.list_topics()
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b"v", partition=0)
        assert len(poll_records(consumer, 1)) == 1
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)
