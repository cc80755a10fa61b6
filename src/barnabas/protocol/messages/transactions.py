"""Producer ids and transactions (KIP-98, KIP-360, KIP-447, KIP-890), and what administrators ask of them (KIP-664).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest, TxnOffsetCommitRequest,
DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest and their responses, in
common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, field


# v2: flexible; v3: the id and epoch a producer has, so that it can go on after an error (KIP-360).
# v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588); v5: TRANSACTION_ABORTABLE (KIP-890).
# v6: two-phase commit (KIP-939), not stable in any release of Kafka so far.
class InitProducerIdRequest(MessageSpec, api=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    transactional_id: str | None = field("0+", nullable="0+")
    transaction_timeout_ms: Int32 = field("0+")
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: bool = field("6+")
    keep_prepared_txn: bool = field("6+")


class InitProducerIdResponse(MessageSpec, api=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    producer_id: Int64 = field("0+", default=-1)
    producer_epoch: Int16 = field("0+").on_error(-1)
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)


# v2: PRODUCER_FENCED (KIP-588); v3: flexible, and the last version that clients send.
# v4: brokers only: several transactions in one request, and `verify_only`, which adds nothing (KIP-890).
# v5: TRANSACTION_ABORTABLE may be answered (KIP-890).
class AddPartitionsToTxnRequest(MessageSpec, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: str = field("0-3")
    v3_and_below_producer_id: Int64 = field("0-3")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = field("0-3")

    class AddPartitionsToTxnTransaction(StructSpec):
        transactional_id: str = field("4+")
        producer_id: Int64 = field("4+")
        producer_epoch: Int16 = field("4+")
        verify_only: bool = field("4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = field("4+")

    class AddPartitionsToTxnTopic(StructSpec):
        name: str = field("0+")
        partitions: list[Int32] = field("0+")


class AddPartitionsToTxnResponse(MessageSpec, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = field("0-3")

    class AddPartitionsToTxnResult(StructSpec):
        transactional_id: str = field("4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = field("4+")

    class AddPartitionsToTxnTopicResult(StructSpec):
        name: str = field("0+")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = field("0+")

    class AddPartitionsToTxnPartitionResult(StructSpec):
        partition_index: Int32 = field("0+")
        partition_error_code: Int16 = field("0+")


# v2: PRODUCER_FENCED (KIP-588); v3: flexible; v4: TRANSACTION_ABORTABLE (KIP-890).
class AddOffsetsToTxnRequest(MessageSpec, api=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    transactional_id: str = field("0+")
    producer_id: Int64 = field("0+")
    producer_epoch: Int16 = field("0+")
    group_id: str = field("0+")


class AddOffsetsToTxnResponse(MessageSpec, api=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")


# v2: PRODUCER_FENCED (KIP-588); v3: flexible; v4: TRANSACTION_ABORTABLE (KIP-890).
# v5: every end of a transaction raises the epoch, so the response carries the id and epoch to go on with (KIP-890).
class EndTxnRequest(MessageSpec, api=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    transactional_id: str = field("0+")
    producer_id: Int64 = field("0+")
    producer_epoch: Int16 = field("0+")
    committed: bool = field("0+")


class EndTxnResponse(MessageSpec, api=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    producer_id: Int64 = field("5+", ignorable=True, default=-1)
    producer_epoch: Int16 = field("5+", ignorable=True, default=-1)


# v2: leader epoch (KIP-320); v3: flexible; generation and member, so that a zombie is fenced by its group (KIP-447).
# v4: TRANSACTION_ABORTABLE; v5: the commit adds the group to the transaction by itself (KIP-890).
class TxnOffsetCommitRequest(MessageSpec, api=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible="3+"):
    transactional_id: str = field("0+")
    group_id: str = field("0+")
    producer_id: Int64 = field("0+")
    producer_epoch: Int16 = field("0+")
    generation_id: Int32 = field("3+", default=-1)
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = field("0+")

    class TxnOffsetCommitRequestTopic(StructSpec):
        name: str = field("0+")
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = field("0+")

    class TxnOffsetCommitRequestPartition(StructSpec):
        partition_index: Int32 = field("0+")
        committed_offset: Int64 = field("0+")
        committed_leader_epoch: Int32 = field("2+", ignorable=True, default=-1)
        committed_metadata: str | None = field("0+", nullable="0+")


class TxnOffsetCommitResponse(MessageSpec, api=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("0+")
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = field("0+").repeats("topics")

    class TxnOffsetCommitResponseTopic(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = field("0+").repeats("partitions")

    class TxnOffsetCommitResponsePartition(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")


# v0: what a partition remembers of its producers, to find hanging transactions (KIP-664).
class DescribeProducersRequest(MessageSpec, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    topics: list[DescribeProducersRequest.TopicRequest] = field("0+")

    class TopicRequest(StructSpec):
        name: str = field("0+")
        partition_indexes: list[Int32] = field("0+")


class DescribeProducersResponse(MessageSpec, api=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    topics: list[DescribeProducersResponse.TopicResponse] = field("0+").repeats("topics")

    class TopicResponse(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[DescribeProducersResponse.PartitionResponse] = field("0+").repeats("partition_indexes")

    class PartitionResponse(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None).on_error(None)
        active_producers: list[DescribeProducersResponse.ProducerState] = field("0+")

    class ProducerState(StructSpec):
        producer_id: Int64 = field("0+")
        # Int32 in Kafka's message too, although every other message has the epoch as Int16.
        producer_epoch: Int32 = field("0+")
        last_sequence: Int32 = field("0+", default=-1)
        last_timestamp: Int64 = field("0+", default=-1)
        coordinator_epoch: Int32 = field("0+")
        current_txn_start_offset: Int64 = field("0+", default=-1)


# v0: the state of transactions, asked of their coordinator (KIP-664).
class DescribeTransactionsRequest(MessageSpec, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    transactional_ids: list[str] = field("0+")


class DescribeTransactionsResponse(MessageSpec, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = field("0+")

    class TransactionState(StructSpec):
        error_code: Int16 = field("0+")
        transactional_id: str = field("0+")
        transaction_state: str = field("0+")
        transaction_timeout_ms: Int32 = field("0+")
        transaction_start_time_ms: Int64 = field("0+")
        producer_id: Int64 = field("0+")
        producer_epoch: Int16 = field("0+")
        topics: list[DescribeTransactionsResponse.TopicData] = field("0+")

    class TopicData(StructSpec):
        topic: str = field("0+")
        partitions: list[Int32] = field("0+")


# v0: KIP-664; v1: only transactions open for longer than a duration (KIP-994); v2: ids by a pattern (KIP-1152).
class ListTransactionsRequest(MessageSpec, api=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    state_filters: list[str] = field("0+")
    producer_id_filters: list[Int64] = field("0+")
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", nullable="2+", default=None)


class ListTransactionsResponse(MessageSpec, api=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    unknown_state_filters: list[str] = field("0+")
    transaction_states: list[ListTransactionsResponse.TransactionState] = field("0+")

    class TransactionState(StructSpec):
        transactional_id: str = field("0+")
        producer_id: Int64 = field("0+")
        transaction_state: str = field("0+")
