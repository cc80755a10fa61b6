"""Produce: v0-13 (KIP-98, KIP-467, KIP-951, KIP-890; topic ids from v13, KIP-516).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: ProduceRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, Records, Uuid, field


# v1: throttle time; v2: log append time. Both change the response alone.
# v3: transactional id, and batches of message format 2 only (KIP-98); v4: KAFKA_STORAGE_ERROR may be answered.
# v5: log start offset in the response; v7: the batches may be compressed with zstd (KIP-110).
# v8: the records that spoilt a batch, and a message for each (KIP-467); v9: flexible.
# v10: the new leader and its address, so that the client need not ask for metadata (KIP-951).
# v11: TRANSACTION_ABORTABLE may be answered; v12: a write adds its partition to the transaction (KIP-890).
# v13: topic ids instead of names (KIP-516).
class ProduceRequest(MessageSpec, api=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    transactional_id: str | None = field("3+", nullable="3+", default=None)
    acks: Int16 = field("0+")
    timeout_ms: Int32 = field("0+")
    topic_data: list[ProduceRequest.TopicProduceData] = field("0+")

    class TopicProduceData(StructSpec):
        name: str = field("0-12", ignorable=True)
        topic_id: Uuid = field("13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = field("0+")

    class PartitionProduceData(StructSpec):
        index: Int32 = field("0+")
        records: Records | None = field("0+", nullable="0+")


class ProduceResponse(MessageSpec, api=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    responses: list[ProduceResponse.TopicProduceResponse] = field("0+").repeats("topic_data")
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = field("10+", tag=0, tagged="10+")

    class TopicProduceResponse(StructSpec):
        name: str = field("0-12", ignorable=True).repeats("name")
        topic_id: Uuid = field("13+", ignorable=True).repeats("topic_id")
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = field("0+").repeats("partition_data")

    class NodeEndpoint(StructSpec):
        node_id: Int32 = field("10+")
        host: str = field("10+")
        port: Int32 = field("10+")
        rack: str | None = field("10+", nullable="10+", default=None)

    class PartitionProduceResponse(StructSpec):
        index: Int32 = field("0+").repeats("index")
        error_code: Int16 = field("0+")
        base_offset: Int64 = field("0+").on_error(-1)
        # -1 unless the topic is configured for LogAppendTime: the batch then keeps the times of its producer.
        log_append_time_ms: Int64 = field("2+", ignorable=True, default=-1)
        log_start_offset: Int64 = field("5+", ignorable=True, default=-1)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = field("8+", ignorable=True)
        error_message: str | None = field("8+", nullable="8+", ignorable=True, default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch | None = field("10+", tag=0, tagged="10+", default=None)

    class BatchIndexAndErrorMessage(StructSpec):
        batch_index: Int32 = field("8+")
        batch_index_error_message: str | None = field("8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(StructSpec):
        leader_id: Int32 = field("10+", default=-1)
        leader_epoch: Int32 = field("10+", default=-1)


# By their own names, which compiled code uses: native classes are not nested (decisions/0009).
TopicProduceData = ProduceRequest.TopicProduceData
PartitionProduceData = ProduceRequest.PartitionProduceData
TopicProduceResponse = ProduceResponse.TopicProduceResponse
NodeEndpoint = ProduceResponse.NodeEndpoint
PartitionProduceResponse = ProduceResponse.PartitionProduceResponse
BatchIndexAndErrorMessage = ProduceResponse.BatchIndexAndErrorMessage
LeaderIdAndEpoch = ProduceResponse.LeaderIdAndEpoch
