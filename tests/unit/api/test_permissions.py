"""What callers may not do is refused, in the place where each API says so, and nothing is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.protocol.codes import ConfigResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.topics import DeleteRecordsRequest
from barnabas.protocol.messages.transactions import DescribeProducersRequest
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from tests.unit.api.permissions_harness import CLUSTER, MINE, THEIRS, Broker


def leader_and_isr(version: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=7, leader_epoch=9, isr=[7], replicas=[7, 0])
    if version < 2:
        state.topic_name = MINE
        return LeaderAndIsrRequest(controller_epoch=9, ungrouped_partition_states=[state])
    told = LeaderAndIsrRequest.LeaderAndIsrTopicState(MINE, partition_states=[state])
    return LeaderAndIsrRequest(controller_epoch=9, topic_states=[told])


@pytest.mark.parametrize("version", range(8))
def test_only_who_may_act_for_the_cluster_moves_leadership(version: int) -> None:
    broker = Broker()
    refused = broker.call(leader_and_isr(version), version)
    errors = refused.partition_errors if version < 5 else refused.topics[0].partition_errors
    codes = [refused.error_code, *(each.error_code for each in errors)]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader
    broker.permissions.allowed.add((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER))
    assert broker.call(leader_and_isr(version), version).error_code == ErrorCode.NONE
    assert not broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader


def test_only_who_may_act_for_the_cluster_stops_replicas_and_tells_metadata() -> None:
    broker = Broker()
    stopped = StopReplicaRequest.StopReplicaPartitionState(0, delete_partition=True)
    stop = StopReplicaRequest(
        controller_epoch=9, topic_states=[StopReplicaRequest.StopReplicaTopicState(MINE, [stopped])]
    )
    refused = broker.call(stop, 4)
    assert [refused.error_code, refused.partition_errors[0].error_code] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    before = broker.replicas.metadata.image
    told = broker.call(UpdateMetadataRequest(controller_epoch=9), 8)
    assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.replicas.metadata.image is before
    assert broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader


def test_records_are_deleted_where_that_is_allowed() -> None:
    broker = Broker((AclOperation.DELETE, ResourceType.TOPIC, MINE))
    place = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name, [place]) for name in (THEIRS, MINE, "unknown", THEIRS)]
    answer = broker.call(DeleteRecordsRequest(topics, 1000), 2)
    assert [(each.name, each.partitions[0].error_code, each.partitions[0].low_watermark) for each in answer.topics] == [
        (THEIRS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
        (MINE, ErrorCode.NONE, 0),
        ("unknown", ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
    ]


def test_epochs_are_told_to_brokers_and_to_who_may_describe_a_topic() -> None:
    asked = [
        OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            name, [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, leader_epoch=0)]
        )
        for name in (MINE, THEIRS)
    ]

    def codes(broker: Broker) -> list[int]:
        answer = broker.call(OffsetForLeaderEpochRequest(topics=asked), 4)
        return [topic.partitions[0].error_code for topic in answer.topics]

    client = Broker((AclOperation.DESCRIBE, ResourceType.TOPIC, MINE))
    assert codes(client) == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    follower = Broker((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER))
    assert codes(follower) == [ErrorCode.NONE, ErrorCode.NONE]


def test_log_directories_are_for_who_may_describe_the_cluster() -> None:
    refused = Broker().call(DescribeLogDirsRequest(None), 4)
    assert (refused.error_code, refused.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    assert Broker().call(DescribeLogDirsRequest(None), 2).results == [], "before v3 there is no place for an error"
    allowed = Broker((AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER)).call(DescribeLogDirsRequest(None), 4)
    assert allowed.error_code == ErrorCode.NONE
    assert {topic.name for topic in allowed.results[0].topics} == {MINE, THEIRS}


def test_producers_are_shown_to_who_may_read() -> None:
    topics = [DescribeProducersRequest.TopicRequest(name, [0]) for name in (MINE, THEIRS)]
    answer = Broker((AclOperation.READ, ResourceType.TOPIC, MINE)).call(DescribeProducersRequest(topics), 0)
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


RESOURCES = [(ConfigResourceType.TOPIC, MINE), (ConfigResourceType.TOPIC, THEIRS), (ConfigResourceType.BROKER, "0")]
CODES = [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_settings_are_shown_to_who_may_see_them() -> None:
    broker = Broker((AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, MINE))
    asked = [DescribeConfigsRequest.DescribeConfigsResource(*each, None) for each in RESOURCES]
    results = broker.call(DescribeConfigsRequest(asked), 4).results
    assert [each.error_code for each in results] == CODES
    assert [bool(each.configs) for each in results] == [True, False, False]


def replace(settings: dict[str, str]) -> Message:
    configs = [AlterConfigsRequest.AlterableConfig(*each) for each in settings.items()]
    return AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(*each, configs) for each in RESOURCES])


def change(settings: dict[str, str]) -> Message:
    configs = [IncrementalAlterConfigsRequest.AlterableConfig(name, 0, value) for name, value in settings.items()]
    return IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequest.AlterConfigsResource(*each, configs) for each in RESOURCES]
    )


@pytest.mark.parametrize(
    ("request_of", "written"),
    [(replace, {"flush.ms": "9"}), (change, {"retention.ms": "5", "flush.ms": "9"})],
)
def test_settings_are_changed_by_who_may(
    request_of: Callable[[dict[str, str]], Message], written: dict[str, str]
) -> None:
    broker = Broker((AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, MINE))
    codes = [each.error_code for each in broker.call(request_of({"flush.ms": "9"}), 1).responses]
    assert codes == CODES
    assert broker.store.written == [(MINE, written)]
    codes = [each.error_code for each in broker.call(request_of({}), 1).responses]
    assert codes == CODES
