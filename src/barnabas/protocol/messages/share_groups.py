"""Share groups (KIP-932).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: ShareGroupHeartbeatRequest, ShareGroupDescribeRequest, ShareFetchRequest, ShareAcknowledgeRequest and their
responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, Records, Uuid, field


# v1: the first stable version; v0 was the early access of Kafka 4.0, and no later release serves it.
class ShareGroupHeartbeatRequest(MessageSpec, api=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: Int32 = field("0+")
    rack_id: str | None = field("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field("0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(MessageSpec, api=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+", default=None)
    member_epoch: Int32 = field("0+")
    heartbeat_interval_ms: Int32 = field("0+")
    assignment: ShareGroupHeartbeatResponse.Assignment | None = field("0+", nullable="0+", default=None)

    class Assignment(StructSpec):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = field("0+")

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")


class ShareGroupDescribeRequest(MessageSpec, api=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")


class ShareGroupDescribeResponse(MessageSpec, api=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = field("0+")

    class DescribedGroup(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        group_id: str = field("0+")
        group_state: str = field("0+")
        group_epoch: Int32 = field("0+")
        assignment_epoch: Int32 = field("0+")
        assignor_name: str = field("0+")
        members: list[ShareGroupDescribeResponse.Member] = field("0+")
        authorized_operations: Int32 = field("0+", default=-2147483648)

    class Member(StructSpec):
        member_id: str = field("0+")
        rack_id: str | None = field("0+", nullable="0+", default=None)
        member_epoch: Int32 = field("0+")
        client_id: str = field("0+")
        client_host: str = field("0+")
        subscribed_topic_names: list[str] = field("0+")
        assignment: ShareGroupDescribeResponse.Assignment = field("0+")

    class Assignment(StructSpec):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = field("0+")

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        topic_name: str = field("0+")
        partitions: list[Int32] = field("0+")


# v1: limits by records beside those by bytes (KIP-932); v2: a strict limit (KIP-1206), and renewed locks (KIP-1222).
class ShareFetchRequest(MessageSpec, api=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    group_id: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: Int32 = field("0+")
    max_wait_ms: Int32 = field("0+")
    min_bytes: Int32 = field("0+")
    max_bytes: Int32 = field("0+", default=0x7FFFFFFF)
    max_records: Int32 = field("1+")
    batch_size: Int32 = field("1+")
    share_acquire_mode: Int8 = field("2+", ignorable=True)
    is_renew_ack: bool = field("2+")
    topics: list[ShareFetchRequest.FetchTopic] = field("0+")
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = field("0+")

    class FetchTopic(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[ShareFetchRequest.FetchPartition] = field("0+")

    class ForgottenTopic(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")

    class FetchPartition(StructSpec):
        partition_index: Int32 = field("0+")
        # Gone with v0: the limits of a share fetch hold for the whole request.
        partition_max_bytes: Int32 = field("0")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = field("0+")

    class AcknowledgementBatch(StructSpec):
        first_offset: Int64 = field("0+")
        last_offset: Int64 = field("0+")
        acknowledge_types: list[Int8] = field("0+")


class ShareFetchResponse(MessageSpec, api=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: Int32 = field("1+")
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = field("0+")
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = field("0+")

    class ShareFetchableTopicResponse(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[ShareFetchResponse.PartitionData] = field("0+")

    class NodeEndpoint(StructSpec):
        node_id: Int32 = field("0+")
        host: str = field("0+")
        port: Int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)

    class PartitionData(StructSpec):
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        acknowledge_error_code: Int16 = field("0+")
        acknowledge_error_message: str | None = field("0+", nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = field("0+")
        records: Records | None = field("0+", nullable="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = field("0+")

    class LeaderIdAndEpoch(StructSpec):
        leader_id: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")

    class AcquiredRecords(StructSpec):
        first_offset: Int64 = field("0+")
        last_offset: Int64 = field("0+")
        delivery_count: Int16 = field("0+")


# v2: an acknowledgement may renew the lock instead of ending it, and the lock's timeout is answered (KIP-1222).
class ShareAcknowledgeRequest(MessageSpec, api=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    group_id: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: Int32 = field("0+")
    is_renew_ack: bool = field("2+")
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = field("0+")

    class AcknowledgeTopic(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = field("0+")

    class AcknowledgePartition(StructSpec):
        partition_index: Int32 = field("0+")
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = field("0+")

    class AcknowledgementBatch(StructSpec):
        first_offset: Int64 = field("0+")
        last_offset: Int64 = field("0+")
        acknowledge_types: list[Int8] = field("0+")


class ShareAcknowledgeResponse(MessageSpec, api=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+", ignorable=True)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = field("0+")
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = field("0+")

    class ShareAcknowledgeTopicResponse(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[ShareAcknowledgeResponse.PartitionData] = field("0+")

    class NodeEndpoint(StructSpec):
        node_id: Int32 = field("0+")
        host: str = field("0+")
        port: Int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)

    class PartitionData(StructSpec):
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = field("0+")

    class LeaderIdAndEpoch(StructSpec):
        leader_id: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")
