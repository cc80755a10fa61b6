"""Metadata: v0-13 (topic ids KIP-516), and DescribeTopicPartitions: v0 (KIP-966).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: MetadataRequest, DescribeTopicPartitionsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Uuid, field


# v1: null instead of an empty list asks for all topics; racks, the controller, and whether a topic is internal.
# v2: cluster id (KIP-78); v3: throttle time; v4: a client can forbid that its request creates topics.
# v5: offline replicas (KIP-112); v7: leader epochs (KIP-320); v8: authorized operations (KIP-430); v9: flexible.
# v10: topic ids in the response (KIP-516); v11: authorized operations of the cluster move to DescribeCluster (KIP-700).
# v12: topics may be asked for by id; v13: a top-level error, with which a broker asks for a new bootstrap (KIP-1102).
class MetadataRequest(MessageSpec, api=ApiKey.METADATA, versions="0-13", flexible="9+"):
    topics: list[MetadataRequest.MetadataRequestTopic] | None = field("0+", nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10")
    include_topic_authorized_operations: bool = field("8+")

    class MetadataRequestTopic(StructSpec):
        # In the request since v10, but Kafka's brokers look topics up by id from v12 only (KIP-516).
        topic_id: Uuid = field("10+", ignorable=True)
        name: str | None = field("0+", nullable="10+")


class MetadataResponse(MessageSpec, api=ApiKey.METADATA, versions="0-13", flexible="9+"):
    throttle_time_ms: Int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponse.MetadataResponseBroker] = field("0+")
    cluster_id: str | None = field("2+", nullable="2+", ignorable=True, default=None)
    controller_id: Int32 = field("1+", ignorable=True, default=-1)
    topics: list[MetadataResponse.MetadataResponseTopic] = field("0+")
    # The smallest Int32 says "not asked for"; 0 would say that the client may do nothing.
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+", ignorable=True)

    class MetadataResponseBroker(StructSpec):
        node_id: Int32 = field("0+")
        host: str = field("0+")
        port: Int32 = field("0+")
        rack: str | None = field("1+", nullable="1+", ignorable=True, default=None)

    class MetadataResponseTopic(StructSpec):
        error_code: Int16 = field("0+")
        name: str | None = field("0+", nullable="12+")
        topic_id: Uuid = field("10+", ignorable=True)
        is_internal: bool = field("1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = field("0+")
        topic_authorized_operations: Int32 = field("8+", default=-2147483648)

    class MetadataResponsePartition(StructSpec):
        error_code: Int16 = field("0+")
        partition_index: Int32 = field("0+")
        leader_id: Int32 = field("0+")
        leader_epoch: Int32 = field("7+", ignorable=True, default=-1)
        replica_nodes: list[Int32] = field("0+")
        isr_nodes: list[Int32] = field("0+")
        offline_replicas: list[Int32] = field("5+", ignorable=True)


# v0: a paged Metadata, for topics with very many partitions, with the replicas that are eligible to lead (KIP-966).
class DescribeTopicPartitionsRequest(MessageSpec, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = field("0+")
    response_partition_limit: Int32 = field("0+", default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = field("0+", nullable="0+", default=None)

    class TopicRequest(StructSpec):
        name: str = field("0+")

    class Cursor(StructSpec):
        topic_name: str = field("0+")
        partition_index: Int32 = field("0+")


class DescribeTopicPartitionsResponse(MessageSpec, api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = field("0+", nullable="0+", default=None)

    class DescribeTopicPartitionsResponseTopic(StructSpec):
        error_code: Int16 = field("0+")
        name: str | None = field("0+", nullable="0+")
        topic_id: Uuid = field("0+")
        is_internal: bool = field("0+")
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = field("0+")
        topic_authorized_operations: Int32 = field("0+", default=-2147483648)

    class Cursor(StructSpec):
        topic_name: str = field("0+")
        partition_index: Int32 = field("0+")

    class DescribeTopicPartitionsResponsePartition(StructSpec):
        error_code: Int16 = field("0+")
        partition_index: Int32 = field("0+")
        leader_id: Int32 = field("0+")
        leader_epoch: Int32 = field("0+", default=-1)
        replica_nodes: list[Int32] = field("0+")
        isr_nodes: list[Int32] = field("0+")
        eligible_leader_replicas: list[Int32] | None = field("0+", nullable="0+", default=None)
        last_known_elr: list[Int32] | None = field("0+", nullable="0+", default=None)
        offline_replicas: list[Int32] = field("0+")
