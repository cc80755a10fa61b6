"""The admin client on scripted brokers: whom it asks, what it returns, what it raises."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.configs import ConfigChange, ConfigResource
from barnabas.clients.admin.topics import NewTopic
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigOperation
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node
from tests.support.scripted_cluster import ScriptedCluster


class Setting:
    def __init__(self) -> None:
        self.cluster = ScriptedCluster(
            {"t": [0, 1]}, brokers=2, extra=(CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest)
        )
        self.errors: list[ErrorCode] = []
        self.cluster.handlers[ApiKey.CREATE_TOPICS] = self.create
        self.cluster.handlers[ApiKey.DELETE_TOPICS] = self.delete
        self.cluster.handlers[ApiKey.DESCRIBE_CONFIGS] = self.configs
        self.admin = Admin("", client=self.cluster.client())

    def next_error(self) -> ErrorCode:
        return self.errors.pop(0) if self.errors else ErrorCode.NONE

    def create(self, request: Any) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreateTopicsResponse.CreatableTopicResult(
                    name=topic.name,
                    topic_id=b"\5" * 16,
                    error_code=int(self.next_error()),
                    error_message=None,
                    num_partitions=topic.num_partitions,
                    replication_factor=topic.replication_factor,
                )
                for topic in request.body.topics
            ]
        )

    def delete(self, request: Any) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            responses=[
                DeleteTopicsResponse.DeletableTopicResult(name=name, error_code=int(self.next_error()))
                for name in request.body.topic_names
            ]
        )

    def configs(self, request: Any) -> DescribeConfigsResponse:
        entry = DescribeConfigsResponse.DescribeConfigsResourceResult(name="retention.ms", value="1", config_source=1)
        resource = request.body.resources[0]
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    error_code=int(self.next_error()),
                    error_message="because",
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[entry],
                )
            ]
        )


def test_creates_topics_at_the_controller() -> None:
    setting = Setting()
    created = setting.admin.create_topics(
        [NewTopic("a", 3, 1, {"cleanup.policy": "compact"}), NewTopic("b", assignments={0: [1]})]
    )
    assert created["a"].num_partitions == 3
    request = setting.cluster.sent(ApiKey.CREATE_TOPICS)[0]
    assert request.connection_id == "0"
    first, second = request.body.topics
    assert [(config.name, config.value) for config in first.configs] == [("cleanup.policy", "compact")]
    assert (second.num_partitions, second.assignments[0].broker_ids) == (-1, [1])


def brokers_that_learn_late(setting: Setting, questions: dict[str, int]) -> None:
    """Have each broker know no topic until it was asked so often."""
    metadata = setting.cluster.handlers[ApiKey.METADATA]

    def answer(request: Any) -> Any:
        found = metadata(request)
        if [topic.name for topic in request.body.topics or ()] == ["t"]:
            questions[request.connection_id] -= 1
            if questions[request.connection_id] >= 0:
                found.topics[0].error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    setting.cluster.handlers[ApiKey.METADATA] = answer


def test_a_new_topic_is_known_to_all_brokers() -> None:
    setting = Setting()
    questions = {"0": 1, "1": 3}
    brokers_that_learn_late(setting, questions)
    setting.admin.create_topics([NewTopic("t")])
    assert questions == {"0": -1, "1": -1}


def test_a_broker_that_never_learns_of_a_topic_is_not_waited_for() -> None:
    setting = Setting()
    brokers_that_learn_late(setting, {"0": 0, "1": 10_000})
    started_ms = setting.cluster.clock.milliseconds()
    assert setting.admin.create_topics([NewTopic("t")])
    assert 2_000 <= setting.cluster.clock.milliseconds() - started_ms < 3_000


def test_a_former_controller_is_not_asked_for_ever() -> None:
    setting = Setting()
    setting.errors = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]
    assert setting.admin.create_topics([NewTopic("a")])
    assert len(setting.cluster.sent(ApiKey.CREATE_TOPICS)) == 3


def test_refusals_are_raised() -> None:
    setting = Setting()
    setting.errors = [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    with pytest.raises(ApiError, match=r"already exists\. Topic: b"):
        setting.admin.create_topics([NewTopic("a"), NewTopic("b")])
    setting.errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    with pytest.raises(ApiError, match="Topic: a"):
        setting.admin.delete_topics(["a"])
    setting.admin.delete_topics(["a"])
    assert setting.cluster.sent(ApiKey.DELETE_TOPICS)[0].header.api_version == 5
    setting.errors = [ErrorCode.INVALID_CONFIG]
    with pytest.raises(ApiError, match="because"):
        setting.admin.describe_topic_configs("t")


def test_descriptions() -> None:
    setting = Setting()
    assert setting.admin.list_topics() == ["t"]
    description = setting.admin.describe_topics(["t"])["t"]
    assert [partition.leader for partition in description.partitions] == [0, 1]
    assert description.topic_id == setting.cluster.topic_id("t")
    cluster = setting.admin.describe_cluster()
    assert (cluster.cluster_id, cluster.controller_id) == ("cluster", 0)
    assert cluster.nodes == (Node(0, "127.0.0.1", 9092), Node(1, "127.0.0.1", 9092))
    assert setting.admin.describe_topic_configs("t")["retention.ms"].value == "1"
    setting.admin.describe_broker_configs(1)
    assert setting.cluster.sent(ApiKey.DESCRIBE_CONFIGS)[-1].connection_id == "1"
    assert setting.admin.list_offsets({TopicPartition("t", 1): -1})[TopicPartition("t", 1)].offset == 0
    assert setting.cluster.sent(ApiKey.LIST_OFFSETS)[-1].body.isolation_level == 0
    setting.admin.list_offsets({TopicPartition("t", 1): -1}, isolation_level="read_committed")
    assert setting.cluster.sent(ApiKey.LIST_OFFSETS)[-1].body.isolation_level == 1
    with pytest.raises(ValueError, match="'committed'; it must be read_uncommitted or read_committed"):
        setting.admin.list_offsets({TopicPartition("t", 1): -1}, isolation_level="committed")
    setting.cluster.topics = {"t": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    with pytest.raises(ApiError, match="Topic: t"):
        setting.admin.describe_topics(["t"])


def test_brokers_that_cannot_be_reached_or_do_not_answer_time_out() -> None:
    setting = Setting()
    setting.cluster.selector.refused.update({"-1", "0", "1"})
    with pytest.raises(ClientTimeout):
        setting.admin.list_topics()
    silent = Setting()
    del silent.cluster.handlers[ApiKey.CREATE_TOPICS]
    with pytest.raises((ClientTimeout, ConnectionError)):
        silent.admin.create_topics([NewTopic("a")])


def deleted(*errors: ErrorCode) -> Any:
    """Answers DeleteRecords: these errors first, then success with the offset asked for."""
    left = list(errors)

    def answer(request: Any) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsResponse.DeleteRecordsTopicResult(
                    topic.name,
                    [
                        DeleteRecordsResponse.DeleteRecordsPartitionResult(
                            each.partition_index, each.offset, int(left.pop(0) if left else ErrorCode.NONE)
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.body.topics
            ]
        )

    return answer


def test_records_are_deleted_at_their_leaders() -> None:
    setting = Setting()
    setting.cluster.extra = (DeleteRecordsRequest,)
    setting.cluster.handlers[ApiKey.DELETE_RECORDS] = deleted(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    before = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    assert setting.admin.delete_records(before) == before
    sent = setting.cluster.sent(ApiKey.DELETE_RECORDS)
    places = [
        (request.connection_id, topic.name, [(each.partition_index, each.offset) for each in topic.partitions])
        for request in sent
        for topic in request.body.topics
    ]
    assert places == [("0", "t", [(0, 5)]), ("1", "t", [(1, 7)]), ("0", "t", [(0, 5)])], "one asked again"
    setting.cluster.handlers[ApiKey.DELETE_RECORDS] = deleted(ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(ApiError, match=r"Partition: .*t.*0"):
        setting.admin.delete_records({TopicPartition("t", 0): 99})


UNKNOWN_TOPIC = "This server does not host this topic-partition. Topic: nowhere"
UNKNOWN_PARTITION = "Topic t has 2 partitions, from 0 on: there is no partition 2."


@pytest.mark.parametrize(
    ("partition", "text"),
    [(TopicPartition("nowhere", 0), UNKNOWN_TOPIC), (TopicPartition("t", 2), UNKNOWN_PARTITION)],
    ids=["topic", "partition"],
)
def test_a_partition_that_does_not_exist_is_not_waited_for(partition: TopicPartition, text: str) -> None:
    setting = Setting()
    setting.cluster.topics["nowhere"] = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for call in (
        lambda: setting.admin.delete_records({partition: 5}),
        lambda: setting.admin.describe_producers([partition]),
        lambda: setting.admin.list_offsets({partition: 5}),
    ):
        start_ms = setting.cluster.clock.milliseconds()
        with pytest.raises(ApiError) as raised:
            call()
        assert (raised.value.code, raised.value.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        assert 10_000 <= setting.cluster.clock.milliseconds() - start_ms < 20_000, "the timeout is 60 s"


def test_a_partition_that_was_just_made_is_waited_for() -> None:
    setting = Setting()
    setting.cluster.extra = (DeleteRecordsRequest,)
    setting.cluster.handlers[ApiKey.DELETE_RECORDS] = deleted(ErrorCode.NONE)
    answer = setting.cluster.handlers[ApiKey.METADATA]

    def learn(request: Any) -> Any:
        if setting.cluster.clock.milliseconds() >= made_ms:
            setting.cluster.topics["t"] = [0, 1, 0]
        return answer(request)

    made_ms = setting.cluster.clock.milliseconds() + 5_000
    setting.cluster.handlers[ApiKey.METADATA] = learn
    assert setting.admin.delete_records({TopicPartition("t", 2): 5}) == {TopicPartition("t", 2): 5}


def test_settings_are_changed_where_they_are_known() -> None:
    setting = Setting()
    setting.cluster.extra = (IncrementalAlterConfigsRequest,)

    def altered(request: Any) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                    int(setting.next_error()), "because", resource.resource_type, resource.resource_name
                )
                for resource in request.body.resources
            ]
        )

    setting.cluster.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = altered
    changes = [ConfigChange("a", ConfigOperation.SET, "1"), ConfigChange("b", ConfigOperation.DELETE)]
    setting.admin.incremental_alter_configs(ConfigResource.topic("t"), changes, validate_only=True)
    setting.admin.incremental_alter_configs(ConfigResource.broker(1), changes)
    first, second = setting.cluster.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    (resource,) = first.body.resources
    assert (resource.resource_type, resource.resource_name, first.body.validate_only) == (2, "t", True)
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]
    assert second.connection_id == "1"
    setting.errors = [ErrorCode.INVALID_CONFIG]
    with pytest.raises(ApiError, match="because"):
        setting.admin.incremental_alter_configs(ConfigResource.topic("t"), changes)
