"""Topics are created, deleted and grown with Kafka's checks, codes and texts."""

from __future__ import annotations

import logging

import pytest

from barnabas.config.kept_settings import KEPT_TOPIC_KEYS
from barnabas.metadata.topic_admin import TopicAdmin, TopicToCreate, TopicToGrow
from barnabas.metadata.topic_name import has_collision, invalid_reason, is_internal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID, random_uuid
from barnabas.quota.controller_mutation_quota import UnboundedControllerMutationQuota
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from barnabas.zk.znodes.replica_assignment import ReplicaAssignment
from tests.support.inline_store import RegisteredBrokers


@pytest.fixture
def one() -> RegisteredBrokers:
    return RegisteredBrokers({0: None})


@pytest.fixture
def three() -> RegisteredBrokers:
    return RegisteredBrokers({0: None, 1: None, 2: None}, num_partitions=4, default_replication_factor=2)


def test_settings_that_nothing_acts_on_are_said_to_be_some(
    one: RegisteredBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, str | None] = {"remote.storage.enable": "false", "local.retention.ms": "5", "retention.ms": "9"}
    wanted = TopicToCreate("orders", 1, 1, configs=settings)
    one.admin.create_topics([wanted], validate_only=True)
    assert not caplog.records
    (result,) = one.admin.create_topics([wanted])
    assert result.error is None
    said = [record.getMessage() for record in caplog.records if "nothing acts" in record.getMessage()]
    kept = f"local.retention.ms, remote.storage.enable ({KEPT_TOPIC_KEYS['local.retention.ms']})"
    assert said == [f"Settings of topic orders are kept, and nothing acts on them: {kept}"]


def test_the_log_line_of_a_refused_request_is_short(one: RegisteredBrokers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    many_settings = {f"no.such.setting.{number}": "x" for number in range(50_000)}
    one.admin.create_topics([TopicToCreate("a", 1, 1, configs=many_settings)])
    one.admin.create_topics([TopicToCreate("b", assignments={0: [0] * 50_000})])
    one.admin.create_partitions([TopicToGrow("c", 2, [[0] * 50_000])])
    refused = [record.getMessage() for record in caplog.records if "Error processing" in record.getMessage()]
    assert "50000 settings {'no.such.setting.0': 'x'" in refused[0]
    assert max(map(len, refused)) < 20_000


def test_creation_writes_the_assignment_the_id_and_the_settings(three: RegisteredBrokers) -> None:
    wanted = TopicToCreate("orders", 3, 2, configs={"retention.ms": "1000"})
    (checked,) = three.admin.create_topics([wanted], validate_only=True)
    assert (checked.error, checked.num_partitions, checked.replication_factor) == (None, 3, 2)
    assert checked.topic_id == ZERO_UUID
    assert three.zk.topics.all_topics() == set()

    (result,) = three.admin.create_topics([wanted])
    assert (result.error, result.num_partitions, result.replication_factor) == (None, 3, 2)
    assert result.configs == {"retention.ms": "1000"}
    (stored,) = three.zk.topics.assignments(["orders"])
    assert stored.topic_id == result.topic_id != ZERO_UUID
    assert sorted(tp.partition for tp in stored.assignment) == [0, 1, 2]
    assert three.zk.configs.entity(ConfigEntityType.TOPIC, "orders") == {"retention.ms": "1000"}


def test_defaults_and_manual_assignments(three: RegisteredBrokers) -> None:
    (by_default,) = three.admin.create_topics([TopicToCreate("a")])
    assert (by_default.num_partitions, by_default.replication_factor) == (4, 2)
    (manual,) = three.admin.create_topics([TopicToCreate("b", assignments={1: [2, 0], 0: [1, 2]})])
    assert (manual.num_partitions, manual.replication_factor) == (2, 2)
    (stored,) = three.zk.topics.assignments(["b"])
    assert stored.assignment[TopicPartition("b", 1)] == ReplicaAssignment((2, 0))


def test_one_bad_topic_does_not_stop_the_others(one: RegisteredBrokers) -> None:
    results = one.admin.create_topics([TopicToCreate("a", 1, 1), TopicToCreate("b", 0, 1), TopicToCreate("c", 1, 1)])
    assert [result.error.code if result.error else None for result in results] == [
        None,
        ErrorCode.INVALID_PARTITIONS,
        None,
    ]


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        (TopicToCreate("x", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (TopicToCreate("x", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (
            TopicToCreate("x", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 2 larger than available brokers: 1.",
        ),
        (
            TopicToCreate("x", 1, -1, {0: [0]}),
            ErrorCode.INVALID_REQUEST,
            (
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the "
                "same time."
            ),
        ),
        (
            TopicToCreate("x", assignments={0: [0, 1], 1: [0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (
            TopicToCreate("x", assignments={0: [1, 1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica assignment found: {0: [1, 1]}",
        ),
        (
            TopicToCreate("x", assignments={0: []}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            TopicToCreate("x", assignments={1: [0], 2: [0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            TopicToCreate("x", assignments={0: [0], 2: [0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            TopicToCreate("x", configs={"retention.ms": None, "a": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,a",
        ),
        (
            TopicToCreate("x", configs={"no.such.setting": "1"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: no.such.setting",
        ),
        (
            TopicToCreate(""),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            TopicToCreate("__cluster_metadata", 1, 1),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (TopicToCreate(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (
            TopicToCreate("a/b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
                "and '-'"
            ),
        ),
        (
            TopicToCreate("é" * 3),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                "Topic name is invalid: 'ééé' contains one or more characters other than ASCII alphanumerics, '.', '_' "
                "and '-'"
            ),
        ),
        (
            TopicToCreate("n" * 250),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: the length of '{'n' * 250}' is longer than the max allowed length 249",
        ),
    ],
)
def test_refusals(one: RegisteredBrokers, topic: TopicToCreate, code: ErrorCode, text: str) -> None:
    assert one.error_of(topic) == (code, text)


def test_wrong_values_of_settings_are_named(one: RegisteredBrokers) -> None:
    code, text = one.error_of(TopicToCreate("x", configs={"retention.ms": "soon"}))
    assert code is ErrorCode.INVALID_CONFIG
    assert text.startswith("Invalid value soon for configuration retention.ms")


def test_names_that_exist_are_being_deleted_or_collide(one: RegisteredBrokers) -> None:
    one.admin.create_topics([TopicToCreate("orders", 1, 1), TopicToCreate("a.b", 1, 1)])
    exists = (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
    assert one.error_of(TopicToCreate("orders", 1, 1)) == exists
    assert one.error_of(TopicToCreate("a_b", 1, 1)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b' collides with existing topics: a.b",
    )
    assert one.error_of(TopicToCreate("a.b", 1, 1)) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")
    # what the controller told of counts as existing without a look at the store
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=0)
    topic = UpdateMetadataRequest.UpdateMetadataTopicState("orders", random_uuid(), [state])
    one.cache.update_metadata(UpdateMetadataRequest(topic_states=[topic], live_brokers=[]))
    assert one.error_of(TopicToCreate("orders", 0, 0)) == exists
    one.admin.delete_topics(["a.b"])
    code, text = one.error_of(TopicToCreate("a.b", assignments={0: [0]}))
    assert (code, text) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' is marked for deletion.")


def test_a_topic_created_by_another_broker_meanwhile(one: RegisteredBrokers) -> None:
    original = one.zk.topics.exists
    one.zk.topics.exists = lambda topic: False  # type: ignore[method-assign]  # it looks before the other writes
    one.zk.topics.create("orders", random_uuid(), {0: [0]}, {})
    (result,) = one.admin.create_topics([TopicToCreate("orders", 1, 1)])
    one.zk.topics.exists = original  # type: ignore[method-assign]
    assert result.error is not None
    assert result.error.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_racks_are_respected_and_half_known_racks_refused() -> None:
    racked = RegisteredBrokers({0: "a", 1: "a", 2: "b"})
    racked.admin.create_topics([TopicToCreate("orders", 6, 2)])
    (stored,) = racked.zk.topics.assignments(["orders"])
    assert all(2 in assignment.replicas for assignment in stored.assignment.values())
    half = RegisteredBrokers({0: "a", 1: None})
    assert half.error_of(TopicToCreate("orders", 1, 1))[0] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_deletion_is_asked_for_once(one: RegisteredBrokers) -> None:
    one.admin.create_topics([TopicToCreate("orders", 1, 1)])
    results = one.admin.delete_topics(["orders", "nothing"])
    assert results["orders"] is None
    missing = results["nothing"]
    assert missing is not None
    assert (missing.code, missing.message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "Topic `nothing` to delete does not exist",
    )
    assert one.zk.topics.deletions() == {"orders"}
    assert one.admin.delete_topics(["orders"]) == {"orders": None}  # again: it is on its way


def test_growth(three: RegisteredBrokers) -> None:
    three.admin.create_topics([TopicToCreate("orders", assignments={0: [1, 2]})])
    (before,) = three.zk.topics.assignments(["orders"])
    assert three.admin.create_partitions([TopicToGrow("orders", 3)], validate_only=True) == {"orders": None}
    assert three.zk.topics.assignments(["orders"]) == [before]
    assert three.admin.create_partitions([TopicToGrow("orders", 2), TopicToGrow("nothing", 2)])["orders"] is None
    assert three.admin.create_partitions([TopicToGrow("orders", 3, [[0, 1]])]) == {"orders": None}
    (after,) = three.zk.topics.assignments(["orders"])
    assert after.topic_id == before.topic_id
    assert after.assignment[TopicPartition("orders", 0)] == ReplicaAssignment((1, 2))
    assert len(after.assignment[TopicPartition("orders", 1)].replicas) == 2
    assert after.assignment[TopicPartition("orders", 2)] == ReplicaAssignment((0, 1))


class MeanwhileAnother(UnboundedControllerMutationQuota):
    """Asked between reading a topic and writing it: somebody else is faster."""

    def __init__(self, admin: TopicAdmin, count: int) -> None:
        self._admin = admin
        self._count = count

    def record(self, permits: int) -> None:
        assert self._admin.create_partitions([TopicToGrow("orders", self._count)]) == {"orders": None}


def test_growths_at_once_take_nothing_from_each_other(one: RegisteredBrokers) -> None:
    """What was acknowledged stays, whoever writes last: its partitions may have records by then."""
    one.zk.topics.create("orders", random_uuid(), {0: [0]}, {})
    late = one.admin.create_partitions([TopicToGrow("orders", 3)], quota=MeanwhileAnother(one.admin, 5))["orders"]
    assert late is not None
    assert late.message == "Topic currently has 5 partitions, which is higher than the requested 3."
    larger = one.admin.create_partitions([TopicToGrow("orders", 9)], quota=MeanwhileAnother(one.admin, 7))
    assert larger == {"orders": None}
    assert len(one.zk.topics.assignments(["orders"])[0].assignment) == 9


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (TopicToGrow("no", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no' does not exist."),
        (TopicToGrow("orders", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (
            TopicToGrow("orders", 1),
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            TopicToGrow("orders", 3, [[7]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unknown broker(s) in replica assignment: 7.",
        ),
        (
            TopicToGrow("orders", 3, [[0], [1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 1 but 2 assignments provided.",
        ),
        (
            TopicToGrow("orders", 3, [[]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Cannot have replication factor of 0 for partition id 2.",
        ),
        (
            TopicToGrow("not\0a/topic", 3),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'not\0a/topic' does not exist.",
        ),
        (
            TopicToGrow("orders", 3, [[0, 0]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate brokers not allowed in replica assignment: 0, 0 for partition id 2.",
        ),
        (
            TopicToGrow("orders", 4, [[0, 1], [2]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [2] have "
                "replication factors [2], respectively."
            ),
        ),
    ],
)
def test_growth_refused(three: RegisteredBrokers, wanted: TopicToGrow, code: ErrorCode, text: str) -> None:
    three.admin.create_topics([TopicToCreate("orders", 2, 1)])
    error = three.admin.create_partitions([wanted])[wanted.name]
    assert error is not None
    assert (error.code, error.message) == (code, text)


def test_no_growth_during_a_reassignment(three: RegisteredBrokers) -> None:
    three.admin.create_topics([TopicToCreate("orders", assignments={0: [0]})])
    moving = {TopicPartition("orders", 0): ReplicaAssignment((1, 0), (1,), (0,))}
    three.zk.topics.set_assignment("orders", None, moving)
    error = three.admin.create_partitions([TopicToGrow("orders", 2)])["orders"]
    assert error is not None
    assert error.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_no_growth_of_what_is_being_deleted(one: RegisteredBrokers) -> None:
    one.admin.create_topics([TopicToCreate("orders", 1, 1)])
    one.admin.delete_topics(["orders"])
    error = one.admin.create_partitions([TopicToGrow("orders", 2)])["orders"]
    assert error is not None
    assert (error.code, error.message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "The topic is queued for deletion.",
    )


@pytest.mark.parametrize("validate_only", [False, True])
def test_no_request_makes_more_than_ten_thousand_partitions(one: RegisteredBrokers, validate_only: bool) -> None:
    most = TopicToCreate("most", 10_000, 1)
    assert one.admin.create_topics([most], validate_only=True)[0].error is None
    for topics in ([TopicToCreate("a", 2**31 - 1, 1)], [most, TopicToCreate("b")]):
        for result in one.admin.create_topics(topics, validate_only=validate_only):
            assert result.error is not None
            assert result.error.code is ErrorCode.POLICY_VIOLATION
    one.admin.create_topics([TopicToCreate("orders", 1, 1)])
    error = one.admin.create_partitions([TopicToGrow("orders", 2**31 - 1)], validate_only=validate_only)["orders"]
    assert error is not None
    assert error.message == "Excessively large number of partitions per request."
    assert one.admin.create_partitions([TopicToGrow("orders", 10_001)], validate_only=True) == {"orders": None}


def test_names() -> None:
    assert invalid_reason("A-z_0.9") is None
    assert invalid_reason("n" * 249) is None
    assert has_collision("a.b_c", "a_b.c")
    assert not has_collision("a.b", "a-b")
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
