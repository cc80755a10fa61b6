"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords and ElectLeaders: topics and their partitions as a whole.

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: CreateTopicsRequest, DeleteTopicsRequest, DeleteRecordsRequest, CreatePartitionsRequest, ElectLeadersRequest and
their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, Uuid, field


# v1: `validate_only`, and error messages; v2: throttle time.
# v4: -1 partitions or replicas ask for the broker's defaults (KIP-464); v5: flexible, the topic's settings (KIP-525).
# v6: THROTTLING_QUOTA_EXCEEDED when the quota of controller mutations is used up (KIP-599); v7: topic id (KIP-516).
class CreateTopicsRequest(MessageSpec, api=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    topics: list[CreateTopicsRequest.CreatableTopic] = field("0+")
    timeout_ms: Int32 = field("0+", default=60000)
    validate_only: bool = field("1+")

    class CreatableTopic(StructSpec):
        name: str = field("0+")
        num_partitions: Int32 = field("0+")
        replication_factor: Int16 = field("0+")
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = field("0+")
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = field("0+")

    class CreatableReplicaAssignment(StructSpec):
        partition_index: Int32 = field("0+")
        broker_ids: list[Int32] = field("0+")

    class CreatableTopicConfig(StructSpec):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+")


class CreateTopicsResponse(MessageSpec, api=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = field("0+").repeats("topics")

    class CreatableTopicResult(StructSpec):
        name: str = field("0+").repeats("name")
        topic_id: Uuid = field("7+", ignorable=True)
        error_code: Int16 = field("0+")
        error_message: str | None = field("1+", nullable="1+", ignorable=True)
        # Set when the client may create the topic but not describe its settings: `configs` is null then.
        topic_config_error_code: Int16 = field("5+", tag=0, tagged="5+", ignorable=True)
        num_partitions: Int32 = field("5+", ignorable=True, default=-1)
        replication_factor: Int16 = field("5+", ignorable=True, default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = field("5+", nullable="5+", ignorable=True)

    class CreatableTopicConfigs(StructSpec):
        name: str = field("5+")
        value: str | None = field("5+", nullable="5+")
        read_only: bool = field("5+")
        config_source: Int8 = field("5+", ignorable=True, default=-1)
        is_sensitive: bool = field("5+")


# v1: throttle time; v3: TOPIC_DELETION_DISABLED (KIP-322); v4: flexible.
# v5: error messages, and THROTTLING_QUOTA_EXCEEDED (KIP-599); v6: topics by id (KIP-516).
class DeleteTopicsRequest(MessageSpec, api=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicsRequest.DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: Int32 = field("0+")

    class DeleteTopicState(StructSpec):
        name: str | None = field("6+", nullable="6+", default=None)
        topic_id: Uuid = field("6+")


class DeleteTopicsResponse(MessageSpec, api=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = field("0+").repeats("topics", "topic_names")

    class DeletableTopicResult(StructSpec):
        # Null when no topic has the id, or the client may not describe the topic: the name would be a disclosure.
        name: str | None = field("0+", nullable="6+").repeats("name")
        topic_id: Uuid = field("6+", ignorable=True).repeats("topic_id")
        error_code: Int16 = field("0+")
        error_message: str | None = field("5+", nullable="5+", ignorable=True, default=None)


# v0: KIP-107; v2: flexible. Offset -1 stands for the high watermark.
class DeleteRecordsRequest(MessageSpec, api=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = field("0+")
    timeout_ms: Int32 = field("0+")

    class DeleteRecordsTopic(StructSpec):
        name: str = field("0+")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = field("0+")

    class DeleteRecordsPartition(StructSpec):
        partition_index: Int32 = field("0+")
        offset: Int64 = field("0+")


class DeleteRecordsResponse(MessageSpec, api=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = field("0+").repeats("topics")

    class DeleteRecordsTopicResult(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = field("0+").repeats("partitions")

    class DeleteRecordsPartitionResult(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        low_watermark: Int64 = field("0+").on_error(-1)
        error_code: Int16 = field("0+")


# v0: KIP-195; v2: flexible; v3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
class CreatePartitionsRequest(MessageSpec, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = field("0+")
    timeout_ms: Int32 = field("0+")
    validate_only: bool = field("0+")

    class CreatePartitionsTopic(StructSpec):
        name: str = field("0+")
        # The partitions the topic shall have in all, and not how many are added.
        count: Int32 = field("0+")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = field("0+", nullable="0+")

    class CreatePartitionsAssignment(StructSpec):
        broker_ids: list[Int32] = field("0+")


class CreatePartitionsResponse(MessageSpec, api=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = field("0+")

    class CreatePartitionsTopicResult(StructSpec):
        name: str = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)


# v0 knew preferred elections only (KIP-183); v1: unclean ones too, and a top-level error (KIP-460); v2: flexible.
class ElectLeadersRequest(MessageSpec, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    election_type: Int8 = field("1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = field("0+", nullable="0+")
    timeout_ms: Int32 = field("0+", default=60000)

    class TopicPartitions(StructSpec):
        topic: str = field("0+")
        partitions: list[Int32] = field("0+")


class ElectLeadersResponse(MessageSpec, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = field("0+")

    class ReplicaElectionResult(StructSpec):
        topic: str = field("0+")
        partition_result: list[ElectLeadersResponse.PartitionResult] = field("0+")

    class PartitionResult(StructSpec):
        partition_id: Int32 = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
