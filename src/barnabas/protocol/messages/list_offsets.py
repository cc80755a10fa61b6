"""ListOffsets: v0-11, and OffsetForLeaderEpoch: v0-4 (KIP-79, KIP-101, KIP-207, KIP-734, KIP-405).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: ListOffsetsRequest, OffsetForLeaderEpochRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, field


# v1: one offset and its timestamp instead of a list (KIP-79); v2: throttle time, and the isolation level (KIP-98).
# v4: leader epoch, for fencing (KIP-320); v5: OFFSET_NOT_AVAILABLE while a new leader catches up (KIP-207).
# v6: flexible. The versions after it add meanings of negative timestamps more than fields:
# v7: -3, the largest timestamp (KIP-734); v8: -4, the first local offset (KIP-405); v9: -5, the last tiered (KIP-1005).
# v10: a timeout for the reads of remote storage (KIP-1075); v11: -6, the first offset not yet uploaded (KIP-1023).
class ListOffsetsRequest(MessageSpec, api=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    replica_id: Int32 = field("0+")
    isolation_level: Int8 = field("2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = field("0+")
    timeout_ms: Int32 = field("10+", ignorable=True)

    class ListOffsetsTopic(StructSpec):
        name: str = field("0+")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = field("0+")

    class ListOffsetsPartition(StructSpec):
        partition_index: Int32 = field("0+")
        current_leader_epoch: Int32 = field("4+", ignorable=True, default=-1)
        timestamp: Int64 = field("0+")
        max_num_offsets: Int32 = field("0", default=1)


class ListOffsetsResponse(MessageSpec, api=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = field("0+").repeats("topics")

    class ListOffsetsTopicResponse(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = field("0+").repeats("partitions")

    class ListOffsetsPartitionResponse(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")
        old_style_offsets: list[Int64] = field("0")
        timestamp: Int64 = field("1+", default=-1)
        offset: Int64 = field("1+", default=-1)
        leader_epoch: Int32 = field("4+", default=-1)


# v1: the epoch that the end offset belongs to (KIP-279); v2: leader epoch of the client, and throttle time (KIP-320).
# v3: replica id, -2 by default: a consumer which may see beyond the high watermark (KIP-392); v4: flexible.
class OffsetForLeaderEpochRequest(MessageSpec, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    replica_id: Int32 = field("3+", ignorable=True, default=-2)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = field("0+")

    class OffsetForLeaderTopic(StructSpec):
        topic: str = field("0+")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = field("0+")

    class OffsetForLeaderPartition(StructSpec):
        partition: Int32 = field("0+")
        current_leader_epoch: Int32 = field("2+", ignorable=True, default=-1)
        leader_epoch: Int32 = field("0+")


class OffsetForLeaderEpochResponse(MessageSpec, api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = field("0+").repeats("topics")

    class OffsetForLeaderTopicResult(StructSpec):
        topic: str = field("0+").repeats("topic")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = field("0+").repeats("partitions")

    class EpochEndOffset(StructSpec):
        error_code: Int16 = field("0+")
        partition: Int32 = field("0+").repeats("partition")
        leader_epoch: Int32 = field("1+", ignorable=True, default=-1)
        end_offset: Int64 = field("0+", default=-1)
