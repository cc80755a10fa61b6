"""Partition reassignments: v0-1 (KIP-455).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest and their responses, in
common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, field


# v0: KIP-455; v1: a client can refuse that the number of replicas changes (KIP-860).
class AlterPartitionReassignmentsRequest(
    MessageSpec, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    timeout_ms: Int32 = field("0+", default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = field("0+")

    class ReassignableTopic(StructSpec):
        name: str = field("0+")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = field("0+")

    class ReassignablePartition(StructSpec):
        partition_index: Int32 = field("0+")
        # Null cancels the reassignment of this partition.
        replicas: list[Int32] | None = field("0+", nullable="0+", default=None)


class AlterPartitionReassignmentsResponse(
    MessageSpec, api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    throttle_time_ms: Int32 = field("0+")
    allow_replication_factor_change: bool = field("1+", ignorable=True, default=True).repeats(
        "allow_replication_factor_change"
    )
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = field("0+").repeats("topics")

    class ReassignableTopicResponse(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = field("0+").repeats(
            "partitions"
        )

    class ReassignablePartitionResponse(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")


class ListPartitionReassignmentsRequest(
    MessageSpec, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    timeout_ms: Int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = field(
        "0+", nullable="0+", default=None
    )

    class ListPartitionReassignmentsTopics(StructSpec):
        name: str = field("0+")
        partition_indexes: list[Int32] = field("0+")


class ListPartitionReassignmentsResponse(
    MessageSpec, api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = field("0+")

    class OngoingTopicReassignment(StructSpec):
        name: str = field("0+")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = field("0+")

    class OngoingPartitionReassignment(StructSpec):
        partition_index: Int32 = field("0+")
        replicas: list[Int32] = field("0+")
        adding_replicas: list[Int32] = field("0+")
        removing_replicas: list[Int32] = field("0+")
