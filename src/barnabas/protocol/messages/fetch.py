"""Fetch: v0-18 (sessions KIP-227, rack-aware KIP-392, topic ids KIP-516, tiered storage KIP-405).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: FetchRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, Records, Uuid, field


class FetchRequest(Message, api=ApiKey.FETCH, versions="0-18", flexible="12+"):
    cluster_id: str | None = field("12+", nullable="12+", tag=0, tagged="12+", ignorable=True, default=None)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: FetchRequest.ReplicaState | None = field("15+", tag=1, tagged="15+", default=None)
    max_wait_ms: Int32 = field("0+")
    min_bytes: Int32 = field("0+")
    max_bytes: Int32 = field("3+", ignorable=True, default=0x7FFFFFFF)
    isolation_level: Int8 = field("4+", ignorable=True)
    session_id: Int32 = field("7+", ignorable=True)
    session_epoch: Int32 = field("7+", ignorable=True, default=-1)
    topics: list[FetchRequest.FetchTopic] = field("0+")
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)

    class ReplicaState(Struct):
        replica_id: Int32 = field("15+", default=-1)
        replica_epoch: Int64 = field("15+", default=-1)

    class FetchTopic(Struct):
        topic: str = field("0-12", ignorable=True)
        topic_id: Uuid = field("13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = field("0+")

    class ForgottenTopic(Struct):
        topic: str = field("7-12", ignorable=True)
        topic_id: Uuid = field("13+", ignorable=True)
        partitions: list[Int32] = field("7+")

    class FetchPartition(Struct):
        partition: Int32 = field("0+")
        current_leader_epoch: Int32 = field("9+", ignorable=True, default=-1)
        fetch_offset: Int64 = field("0+")
        last_fetched_epoch: Int32 = field("12+", default=-1)
        log_start_offset: Int64 = field("5+", ignorable=True, default=-1)
        partition_max_bytes: Int32 = field("0+")
        replica_directory_id: Uuid = field("17+", tag=0, tagged="17+", ignorable=True)
        high_watermark: Int64 = field("18+", tag=1, tagged="18+", ignorable=True, default=0x7FFFFFFFFFFFFFFF)


class FetchResponse(Message, api=ApiKey.FETCH, versions="0-18", flexible="12+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("7+", ignorable=True)
    session_id: Int32 = field("7+")
    responses: list[FetchResponse.FetchableTopicResponse] = field("0+").repeats("topics")
    node_endpoints: list[FetchResponse.NodeEndpoint] = field("16+", tag=0, tagged="16+")

    class FetchableTopicResponse(Struct):
        topic: str = field("0-12", ignorable=True).repeats("topic")
        topic_id: Uuid = field("13+", ignorable=True).repeats("topic_id")
        partitions: list[FetchResponse.PartitionData] = field("0+").repeats("partitions")

    class NodeEndpoint(Struct):
        node_id: Int32 = field("16+")
        host: str = field("16+")
        port: Int32 = field("16+")
        rack: str | None = field("16+", nullable="16+", default=None)

    class PartitionData(Struct):
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

    class EpochEndOffset(Struct):
        epoch: Int32 = field("12+", default=-1)
        end_offset: Int64 = field("12+", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: Int32 = field("12+", default=-1)
        leader_epoch: Int32 = field("12+", default=-1)

    class SnapshotId(Struct):
        end_offset: Int64 = field("0+", default=-1)
        epoch: Int32 = field("0+", default=-1)

    class AbortedTransaction(Struct):
        producer_id: Int64 = field("4+")
        first_offset: Int64 = field("4+")
