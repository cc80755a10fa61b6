"""The topics that requests name, in each shape that Kafka's messages give them."""

from __future__ import annotations

from barnabas.faults.named_topics import named_topics, names_topics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_index import MESSAGES
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.classic_groups import HeartbeatRequest
from barnabas.protocol.messages.configs import DescribeConfigsRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest, ElectLeadersRequest
from barnabas.protocol.uuid import ZERO_UUID

TOPIC_ID = b"0123456789abcdef"


def named(body: Struct) -> set[str | bytes]:
    return {each for each in named_topics(body) if each not in ("", ZERO_UUID)}


def test_names_and_ids_of_records() -> None:
    data = [ProduceRequest.TopicProduceData(name="a"), ProduceRequest.TopicProduceData(topic_id=TOPIC_ID)]
    assert named(ProduceRequest(topic_data=data)) == {"a", TOPIC_ID}
    topics = [FetchRequest.FetchTopic(topic="b"), FetchRequest.FetchTopic(topic_id=TOPIC_ID)]
    forgotten = [FetchRequest.ForgottenTopic(topic="forgotten")]
    assert named(FetchRequest(topics=topics, forgotten_topics_data=forgotten)) == {"b", TOPIC_ID}


def test_metadata_of_some_and_of_all() -> None:
    topics = [MetadataRequest.MetadataRequestTopic(name="a"), MetadataRequest.MetadataRequestTopic(TOPIC_ID, None)]
    assert named(MetadataRequest(topics)) == {"a", TOPIC_ID}
    assert named(MetadataRequest(None)) == set()


def test_topics_within_groups_and_plain_lists() -> None:
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup(
        "group", topics=[OffsetFetchRequest.OffsetFetchRequestTopics("a")]
    )
    assert named(
        OffsetFetchRequest(groups=[of_group, OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=None)])
    ) == {"a"}
    assert named(DeleteTopicsRequest(topic_names=["a", "b"])) == {"a", "b"}
    assert named(ElectLeadersRequest(topic_partitions=[ElectLeadersRequest.TopicPartitions("a", [0])])) == {"a"}
    assert named(ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=["a"])) == {"a"}


def test_the_name_of_a_setting_is_no_topic() -> None:
    setting = CreateTopicsRequest.CreatableTopicConfig("retention.ms", "1")
    assert named(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("a", 1, 1, [], [setting])])) == {"a"}


def test_a_resource_is_a_topic_by_its_type() -> None:
    topic, broker = (DescribeConfigsRequest.DescribeConfigsResource(kind, "0") for kind in (2, 4))
    assert named(DescribeConfigsRequest([broker])) == set()
    assert named(DescribeConfigsRequest([topic, broker])) == {"0"}


def test_which_apis_can_name_topics() -> None:
    without = {MESSAGES[key].name for key in MESSAGES if not names_topics(key)}
    assert {"Heartbeat", "JoinGroup", "SyncGroup", "FindCoordinator", "ApiVersions", "InitProducerId"} <= without
    assert not without & {
        *(
            "Produce",
            "Fetch",
            "ListOffsets",
            "Metadata",
            "OffsetCommit",
            "OffsetFetch",
            "DeleteRecords",
            "CreateTopics",
        ),
        *("DescribeConfigs", "IncrementalAlterConfigs", "ElectLeaders", "CreatePartitions", "OffsetDelete"),
        *("DescribeLogDirs", "AlterPartitionReassignments", "TxnOffsetCommit", "AddPartitionsToTxn"),
    }
    assert named(HeartbeatRequest("group")) == set()
    assert names_topics(ApiKey.UPDATE_METADATA)
