"""Fetch: v0-18 (sessions KIP-227, rack-aware KIP-392, topic ids KIP-516, tiered storage KIP-405).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: FetchRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, Records, Uuid, field


# v1: throttle time; v2: message format 1; v3: a bound of the whole response: the order of partitions matters (KIP-74).
# v4: isolation level, and message format 2 (KIP-98); v5: log start offset (KIP-107).
# v7: fetch sessions (KIP-227); v9: leader epoch of the client, for fencing (KIP-320); v10: zstd (KIP-110).
# v11: rack of the client, and the replica it should read from (KIP-392).
# v12: flexible; the epoch last fetched, answered by the epoch at which the logs part (KIP-595).
# v13: topic ids instead of names (KIP-516); v14: OFFSET_MOVED_TO_TIERED_STORAGE may be answered (KIP-405).
# v15: replica id and epoch in a tagged field, which consumers leave out (KIP-903); v16: addresses of leaders (KIP-951).
# v17: directory ids of replicas (KIP-853); v18: the high watermark a follower knows (KIP-1166).
class FetchRequest(MessageSpec, api=ApiKey.FETCH, versions="0-18", flexible="12+"):
    cluster_id: str | None = field("12+", nullable="12+", tag=0, tagged="12+", ignorable=True, default=None)
    # -1 is a consumer, -2 a consumer of Kafka's debugging tools; a broker sends its own id.
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: FetchRequest.ReplicaState | None = field("15+", tag=1, tagged="15+", default=None)
    max_wait_ms: Int32 = field("0+")
    min_bytes: Int32 = field("0+")
    # A soft limit: the first batch of a response is sent whole even if it is larger, so that a consumer makes progress.
    max_bytes: Int32 = field("3+", ignorable=True, default=0x7FFFFFFF)
    isolation_level: Int8 = field("4+", ignorable=True)
    session_id: Int32 = field("7+", ignorable=True)
    # 0 opens a session, -1 closes it or does without one; any other number must follow the one before (KIP-227).
    session_epoch: Int32 = field("7+", ignorable=True, default=-1)
    topics: list[FetchRequest.FetchTopic] = field("0+")
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)

    class ReplicaState(StructSpec):
        replica_id: Int32 = field("15+", default=-1)
        replica_epoch: Int64 = field("15+", default=-1)

    class FetchTopic(StructSpec):
        topic: str = field("0-12", ignorable=True)
        topic_id: Uuid = field("13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = field("0+")

    class ForgottenTopic(StructSpec):
        topic: str = field("7-12", ignorable=True)
        topic_id: Uuid = field("13+", ignorable=True)
        partitions: list[Int32] = field("7+")

    class FetchPartition(StructSpec):
        partition: Int32 = field("0+")
        current_leader_epoch: Int32 = field("9+", ignorable=True, default=-1)
        fetch_offset: Int64 = field("0+")
        last_fetched_epoch: Int32 = field("12+", default=-1)
        log_start_offset: Int64 = field("5+", ignorable=True, default=-1)
        partition_max_bytes: Int32 = field("0+")
        replica_directory_id: Uuid = field("17+", tag=0, tagged="17+", ignorable=True)
        # The default says that the sender tells no high watermark: consumers and older followers leave the field out.
        high_watermark: Int64 = field("18+", tag=1, tagged="18+", ignorable=True, default=0x7FFFFFFFFFFFFFFF)


class FetchResponse(MessageSpec, api=ApiKey.FETCH, versions="0-18", flexible="12+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("7+", ignorable=True)
    session_id: Int32 = field("7+")
    responses: list[FetchResponse.FetchableTopicResponse] = field("0+").repeats("topics")
    node_endpoints: list[FetchResponse.NodeEndpoint] = field("16+", tag=0, tagged="16+")

    class FetchableTopicResponse(StructSpec):
        topic: str = field("0-12", ignorable=True).repeats("topic")
        topic_id: Uuid = field("13+", ignorable=True).repeats("topic_id")
        partitions: list[FetchResponse.PartitionData] = field("0+").repeats("partitions")

    class NodeEndpoint(StructSpec):
        node_id: Int32 = field("16+")
        host: str = field("16+")
        port: Int32 = field("16+")
        rack: str | None = field("16+", nullable="16+", default=None)

    class PartitionData(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition")
        error_code: Int16 = field("0+")
        high_watermark: Int64 = field("0+").on_error(-1)
        last_stable_offset: Int64 = field("4+", ignorable=True, default=-1)
        log_start_offset: Int64 = field("5+", ignorable=True, default=-1)
        diverging_epoch: FetchResponse.EpochEndOffset | None = field("12+", tag=0, tagged="12+", default=None)
        current_leader: FetchResponse.LeaderIdAndEpoch | None = field("12+", tag=1, tagged="12+", default=None)
        snapshot_id: FetchResponse.SnapshotId | None = field("12+", tag=2, tagged="12+", default=None)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = field("4+", nullable="4+", ignorable=True)
        preferred_read_replica: Int32 = field("11+", default=-1)
        records: Records | None = field("0+", nullable="0+")

    class EpochEndOffset(StructSpec):
        epoch: Int32 = field("12+", default=-1)
        end_offset: Int64 = field("12+", default=-1)

    class LeaderIdAndEpoch(StructSpec):
        leader_id: Int32 = field("12+", default=-1)
        leader_epoch: Int32 = field("12+", default=-1)

    class SnapshotId(StructSpec):
        end_offset: Int64 = field("0+", default=-1)
        epoch: Int32 = field("0+", default=-1)

    class AbortedTransaction(StructSpec):
        producer_id: Int64 = field("4+")
        first_offset: Int64 = field("4+")


# By their own names, which compiled code uses: native classes are not nested (decisions/0009).
ReplicaState = FetchRequest.ReplicaState
FetchTopic = FetchRequest.FetchTopic
ForgottenTopic = FetchRequest.ForgottenTopic
FetchPartition = FetchRequest.FetchPartition
FetchableTopicResponse = FetchResponse.FetchableTopicResponse
NodeEndpoint = FetchResponse.NodeEndpoint
PartitionData = FetchResponse.PartitionData
EpochEndOffset = FetchResponse.EpochEndOffset
LeaderIdAndEpoch = FetchResponse.LeaderIdAndEpoch
SnapshotId = FetchResponse.SnapshotId
AbortedTransaction = FetchResponse.AbortedTransaction
