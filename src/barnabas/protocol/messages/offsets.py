"""Committed offsets: OffsetCommit v0-10, OffsetFetch v0-10, OffsetDelete v0 (KIP-447, KIP-709, KIP-848, KIP-496).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, Uuid, field


# v1: generation and member, and a timestamp per partition; v2: a retention time per request instead of that timestamp.
# v3: throttle time; v5: no retention time: `offsets.retention.minutes` rules alone (KIP-211).
# v6: leader epoch of the last record consumed (KIP-320); v7: group instance id (KIP-345); v8: flexible.
# v9: the generation may be a member epoch of the new protocol; v10: topic ids instead of names (KIP-848).
class OffsetCommitRequest(MessageSpec, api=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    group_id: str = field("0+")
    generation_id_or_member_epoch: Int32 = field("1+", ignorable=True, default=-1)
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", nullable="7+", default=None)
    retention_time_ms: Int64 = field("2-4", ignorable=True, default=-1)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = field("0+")

    class OffsetCommitRequestTopic(StructSpec):
        name: str = field("0-9", ignorable=True)
        topic_id: Uuid = field("10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = field("0+")

    class OffsetCommitRequestPartition(StructSpec):
        partition_index: Int32 = field("0+")
        committed_offset: Int64 = field("0+")
        committed_leader_epoch: Int32 = field("6+", ignorable=True, default=-1)
        commit_timestamp: Int64 = field("1", default=-1)
        committed_metadata: str | None = field("0+", nullable="0+")


class OffsetCommitResponse(MessageSpec, api=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = field("0+").repeats("topics")

    class OffsetCommitResponseTopic(StructSpec):
        name: str = field("0-9", ignorable=True).repeats("name")
        topic_id: Uuid = field("10+", ignorable=True).repeats("topic_id")
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = field("0+").repeats("partitions")

    class OffsetCommitResponsePartition(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")


# v0 read offsets from ZooKeeper, v1 and later read __consumer_offsets; v2: null asks for all topics, a top-level error.
# v3: throttle time; v5: leader epochs (KIP-320); v6: flexible.
# v7: require_stable: offsets of open transactions are answered by UNSTABLE_OFFSET_COMMIT (KIP-447).
# v8: several groups in one request (KIP-709); v9: member id and epoch, v10: topic ids instead of names (KIP-848).
class OffsetFetchRequest(MessageSpec, api=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    group_id: str = field("0-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = field("8+")
    require_stable: bool = field("7+")

    class OffsetFetchRequestTopic(StructSpec):
        name: str = field("0-7")
        partition_indexes: list[Int32] = field("0-7")

    class OffsetFetchRequestGroup(StructSpec):
        group_id: str = field("8+")
        member_id: str | None = field("9+", nullable="9+", ignorable=True, default=None)
        member_epoch: Int32 = field("9+", ignorable=True, default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = field("8+", nullable="8+")

    class OffsetFetchRequestTopics(StructSpec):
        name: str = field("8-9", ignorable=True)
        topic_id: Uuid = field("10+", ignorable=True)
        partition_indexes: list[Int32] = field("8+")


class OffsetFetchResponse(MessageSpec, api=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = field("0-7")
    error_code: Int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = field("8+")

    class OffsetFetchResponseTopic(StructSpec):
        name: str = field("0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = field("0-7")

    class OffsetFetchResponseGroup(StructSpec):
        group_id: str = field("8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = field("8+")
        error_code: Int16 = field("8+")

    class OffsetFetchResponsePartition(StructSpec):
        partition_index: Int32 = field("0-7")
        committed_offset: Int64 = field("0-7")
        committed_leader_epoch: Int32 = field("5-7", ignorable=True, default=-1)
        metadata: str | None = field("0-7", nullable="0-7")
        error_code: Int16 = field("0-7")

    class OffsetFetchResponseTopics(StructSpec):
        name: str = field("8-9", ignorable=True)
        topic_id: Uuid = field("10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = field("8+")

    class OffsetFetchResponsePartitions(StructSpec):
        partition_index: Int32 = field("8+")
        committed_offset: Int64 = field("8+")
        committed_leader_epoch: Int32 = field("8+", ignorable=True, default=-1)
        metadata: str | None = field("8+", nullable="8+")
        error_code: Int16 = field("8+")


# v0: removes offsets of topics that a live group no longer subscribes to (KIP-496). The API never became flexible.
class OffsetDeleteRequest(MessageSpec, api=ApiKey.OFFSET_DELETE, versions="0"):
    group_id: str = field("0+")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = field("0+")

    class OffsetDeleteRequestTopic(StructSpec):
        name: str = field("0+")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = field("0+")

    class OffsetDeleteRequestPartition(StructSpec):
        partition_index: Int32 = field("0+")


class OffsetDeleteResponse(MessageSpec, api=ApiKey.OFFSET_DELETE, versions="0"):
    error_code: Int16 = field("0+")
    throttle_time_ms: Int32 = field("0+")
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = field("0+")

    class OffsetDeleteResponseTopic(StructSpec):
        name: str = field("0+")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = field("0+")

    class OffsetDeleteResponsePartition(StructSpec):
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")


# By their own names, which compiled code uses: native classes are not nested (decisions/0009).
OffsetCommitRequestTopic = OffsetCommitRequest.OffsetCommitRequestTopic
OffsetCommitRequestPartition = OffsetCommitRequest.OffsetCommitRequestPartition
OffsetCommitResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic
OffsetCommitResponsePartition = OffsetCommitResponse.OffsetCommitResponsePartition
OffsetFetchRequestTopic = OffsetFetchRequest.OffsetFetchRequestTopic
OffsetFetchRequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
OffsetFetchRequestTopics = OffsetFetchRequest.OffsetFetchRequestTopics
OffsetFetchResponseTopic = OffsetFetchResponse.OffsetFetchResponseTopic
OffsetFetchResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
OffsetFetchResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartition
OffsetFetchResponseTopics = OffsetFetchResponse.OffsetFetchResponseTopics
OffsetFetchResponsePartitions = OffsetFetchResponse.OffsetFetchResponsePartitions
OffsetDeleteRequestTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
OffsetDeleteRequestPartition = OffsetDeleteRequest.OffsetDeleteRequestPartition
OffsetDeleteResponseTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
OffsetDeleteResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition
