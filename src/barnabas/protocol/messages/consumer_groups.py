"""Consumer groups with server-side assignment (KIP-848).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Uuid, field


# v1: subscription by a regular expression that the broker evaluates (KIP-848), and ids chosen by members (KIP-1082).
class ConsumerGroupHeartbeatRequest(MessageSpec, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    group_id: str = field("0+")
    member_id: str = field("0+")
    # 0 joins, -1 leaves, -2 leaves for a while: the assignment of a static member is kept for its return.
    member_epoch: Int32 = field("0+")
    instance_id: str | None = field("0+", nullable="0+", default=None)
    rack_id: str | None = field("0+", nullable="0+", default=None)
    # From here on -1 or null means "as in the heartbeat before", so that most heartbeats are a few bytes long.
    rebalance_timeout_ms: Int32 = field("0+", default=-1)
    subscribed_topic_names: list[str] | None = field("0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = field("1+", nullable="1+", default=None)
    server_assignor: str | None = field("0+", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = field(
        "0+", nullable="0+", default=None
    )

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")


class ConsumerGroupHeartbeatResponse(MessageSpec, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+", default=None)
    member_epoch: Int32 = field("0+")
    heartbeat_interval_ms: Int32 = field("0+")
    # Null means "unchanged": an assignment is sent when it changes or when the client names all its fields.
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = field("0+", nullable="0+", default=None)

    class Assignment(StructSpec):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = field("0+")

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        partitions: list[Int32] = field("0+")


# v1: whether a member speaks the classic or the consumer protocol, for groups on their way between them (KIP-1099).
class ConsumerGroupDescribeRequest(MessageSpec, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")


class ConsumerGroupDescribeResponse(MessageSpec, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = field("0+").repeats("group_ids")

    class DescribedGroup(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        group_id: str = field("0+").repeats("group_ids")
        group_state: str = field("0+")
        group_epoch: Int32 = field("0+")
        assignment_epoch: Int32 = field("0+")
        assignor_name: str = field("0+")
        members: list[ConsumerGroupDescribeResponse.Member] = field("0+")
        authorized_operations: Int32 = field("0+", default=-2147483648)

    class Member(StructSpec):
        member_id: str = field("0+")
        instance_id: str | None = field("0+", nullable="0+", default=None)
        rack_id: str | None = field("0+", nullable="0+", default=None)
        member_epoch: Int32 = field("0+")
        client_id: str = field("0+")
        client_host: str = field("0+")
        subscribed_topic_names: list[str] = field("0+")
        subscribed_topic_regex: str | None = field("0+", nullable="0+", default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = field("0+")
        target_assignment: ConsumerGroupDescribeResponse.Assignment = field("0+")
        member_type: Int8 = field("1+", ignorable=True, default=-1)

    class Assignment(StructSpec):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = field("0+")

    class TopicPartitions(StructSpec):
        topic_id: Uuid = field("0+")
        topic_name: str = field("0+")
        partitions: list[Int32] = field("0+")
