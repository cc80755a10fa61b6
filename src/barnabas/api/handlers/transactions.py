"""The requests of producers with transactional ids, and the producer ids of idempotent producers.

InitProducerId: v0-5, AddPartitionsToTxn: v0-5, AddOffsetsToTxn: v0-4, EndTxn: v0-5.

None is brief: each may write to the log of transactions, and wait for its replicas. A producer that was fenced is told
INVALID_PRODUCER_EPOCH in older versions and PRODUCER_FENCED since KIP-588.

InitProducerId v2: flexible. v3: the producer's current id and epoch, to go on after an error (KIP-360). v4:
PRODUCER_FENCED. v5: KIP-890. v6, of two-phase commit (KIP-939), is not stable in Kafka 4 either.
AddPartitionsToTxn v3: flexible. v4: batches, of brokers only (KIP-890).
EndTxn v5 raises the epoch with each transaction: clients send it where `transaction.version` 2 is finalized (KIP-890).

Kafka: KafkaApis.handleInitProducerIdRequest, handleAddPartitionsToTxnRequest, handleAddOffsetsToTxnRequest,
handleEndTxnRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, is_allowed_somewhere, permitted
from barnabas.api.brief import each_once
from barnabas.api.origins import BrokerOrigin
from barnabas.api.request import Handler, Request
from barnabas.coordinator.transaction.held_back_answers import DelayedAdditions
from barnabas.coordinator.transaction.transaction_metadata import RAISES_EPOCH_SINCE, ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_service import EndResult, InitResult, TransactionService
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.producer_ids import ProducerIdManager
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, is_internal
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

WITHOUT_TWO_PHASE_COMMIT: Final = (0, 5)
_FENCED_SINCE: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version with PRODUCER_FENCED."""
_BATCHED_SINCE: Final = 4
_RAISES_EPOCH_SINCE: Final = 5
"""The first version of EndTxn that gives the producer its next epoch."""

_PartitionErrors = Mapping[TopicPartition, ErrorCode]
_Refused = dict[TopicPartition, ErrorCode]
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class TransactionsApi:
    """Hands out producer ids, and takes the requests of transactions to their coordinator.

    group_partition_for: the partition of `__consumer_offsets` that has a group's offsets.
    """

    def __init__(
        self,
        transactions: TransactionService,
        producer_ids: ProducerIdManager,
        group_partition_for: Callable[[str], int],
        metadata: MetadataCache,
        origin: BrokerOrigin,
        authorizer: Authorizer | None,
        additions: DelayedAdditions,
    ) -> None:
        self._transactions = transactions
        self._additions = additions
        self._producer_ids = producer_ids
        self._group_partition_for = group_partition_for
        self._metadata = metadata
        self._origin = origin
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.INIT_PRODUCER_ID, self.init_producer_id, versions=WITHOUT_TWO_PHASE_COMMIT),
            Handler(ApiKey.ADD_PARTITIONS_TO_TXN, self.add_partitions, error_answer=_add_partitions_error),
            Handler(ApiKey.ADD_OFFSETS_TO_TXN, self.add_offsets),
            Handler(ApiKey.END_TXN, self.end),
        )

    # -- InitProducerId

    def init_producer_id(self, request: Request[InitProducerIdRequest]) -> None:
        """Hand out a producer id and an epoch: new ones to an idempotent producer, which keeps nothing (KIP-360).

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST for an
        empty transactional id or half an identity, and what the coordinator raises.
        """
        body = request.body
        self._check_permission(request, body.transactional_id)
        if (body.producer_id < 0) != (body.producer_epoch < 0):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Producer id {body.producer_id} and epoch {body.producer_epoch} must both be given, or neither",
            )
        if body.transactional_id is None:
            request.respond(_initialized(ErrorCode.NONE, ProducerIdAndEpoch(self._producer_ids.generate(), 0)))
            return
        expected = None if body.producer_id < 0 else ProducerIdAndEpoch(body.producer_id, body.producer_epoch)

        def answer(result: InitResult) -> None:
            request.respond(_initialized(_for_version(request, result.error), result.producer))

        self._transactions.init_producer_id(
            body.transactional_id, body.transaction_timeout_ms, expected, request.deferred(answer)
        )

    def _check_permission(self, request: Request[InitProducerIdRequest], transactional_id: str | None) -> None:
        """Check that the client may write: idempotently to any topic (KIP-679), or with its transactional id.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, or TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the id.
        """
        if transactional_id is not None:
            self._check_transactional_id(request, transactional_id)
            return
        authorizer = self._authorizer
        idempotent = (AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
        # Not logged: IDEMPOTENT_WRITE is deprecated (KIP-679), and WRITE on any topic does as well.
        if is_allowed(authorizer, request, *idempotent, log_if_denied=False):
            return
        if not is_allowed_somewhere(authorizer, request, AclOperation.WRITE, ResourceType.TOPIC):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def _check_transactional_id(self, request: Request[Any], transactional_id: str) -> None:
        """Check that the client may use its transactional id.

        Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        write, kind = AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID
        if not is_allowed(self._authorizer, request, write, kind, transactional_id):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    # -- AddPartitionsToTxn

    def add_partitions(self, request: Request[AddPartitionsToTxnRequest]) -> None:
        """Add partitions to transactions: of one producer, or of several that a broker asks for.

        Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED; CLUSTER_AUTHORIZATION_FAILED for batches that do not
        come from a broker.
        """
        body = request.body
        if request.api_version >= _BATCHED_SINCE:
            self._origin.require(request)
            self._add_batches(request, body.transactions)
            return
        transactional_id = body.v3_and_below_transactional_id
        self._check_transactional_id(request, transactional_id)
        partitions = _partitions_of(body.v3_and_below_topics)
        errors = self._missing(partitions) | self._unauthorized(request, partitions)
        if errors:
            request.respond(_one_answer(_with_the_others(errors, partitions)))
            return

        def answer(error: ErrorCode) -> None:
            request.respond(_one_answer(dict.fromkeys(partitions, _for_version(request, error))))

        producer = ProducerIdAndEpoch(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
        self._additions.add(transactional_id, producer, partitions, request.deferred(answer))

    def _add_batches(self, request: Request[AddPartitionsToTxnRequest], batches: Sequence[_Transaction]) -> None:
        """Answer when every transaction of the request has its result."""
        results: dict[str, _PartitionErrors] = {}
        wanted = {batch.transactional_id for batch in batches}

        def note(transactional_id: str, errors: _PartitionErrors) -> None:
            results[transactional_id] = errors
            # The last one answers. Two that come at once both find all results: the second answer is dropped.
            if results.keys() >= wanted:
                request.respond(_batch_answer(results))

        if not batches:
            request.respond(_batch_answer({}))
        for batch in batches:
            self._add_batch(request, batch, request.deferred(lambda found: note(*found)))

    def _add_batch(
        self,
        request: Request[Any],
        batch: _Transaction,
        note: Callable[[tuple[str, _PartitionErrors]], None],
    ) -> None:
        transactional_id = batch.transactional_id
        partitions = _partitions_of(batch.topics)
        producer = ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch)
        # Whether the producer may write to a topic, the broker that asks has found out before.
        errors = self._missing(partitions)
        if errors:
            note((transactional_id, _with_the_others(errors, partitions)))
            return
        if batch.verify_only:
            refused = self._transactions.verify(transactional_id, producer, partitions)
            verified = {each: refused.get(each, ErrorCode.NONE) for each in partitions}
            note((transactional_id, verified))
            return
        self._transactions.add_partitions(
            transactional_id,
            producer,
            partitions,
            lambda error: note((transactional_id, dict.fromkeys(partitions, error))),
            client_version=RAISES_EPOCH_SINCE,
        )

    def _unauthorized(self, request: Request[Any], partitions: Sequence[TopicPartition]) -> _Refused:
        """Return an error for each partition that the client may not write to, those of internal topics among them."""
        names = [each.topic for each in partitions if not is_internal(each.topic)]
        allowed = permitted(self._authorizer, request, AclOperation.WRITE, ResourceType.TOPIC, names)
        return {each: ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in partitions if each.topic not in allowed}

    def _missing(self, partitions: Sequence[TopicPartition]) -> _Refused:
        """Return an error for each partition that does not exist."""
        image = self._metadata.image
        return {each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in partitions if image.partition(each) is None}

    # -- AddOffsetsToTxn

    def add_offsets(self, request: Request[AddOffsetsToTxnRequest]) -> None:
        """Add the partition of a group's offsets to the producer's transaction.

        Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
        """
        body = request.body
        self._check_transactional_id(request, body.transactional_id)
        if not is_allowed(self._authorizer, request, AclOperation.READ, ResourceType.GROUP, body.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        offsets = TopicPartition(GROUP_METADATA_TOPIC, self._group_partition_for(body.group_id))

        def answer(error: ErrorCode) -> None:
            request.respond(AddOffsetsToTxnResponse(error_code=_for_version(request, error)))

        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        self._additions.add(body.transactional_id, producer, [offsets], request.deferred(answer))

    # -- EndTxn

    def end(self, request: Request[EndTxnRequest]) -> None:
        """Commit or abort the producer's transaction; answer when the decision is stored.

        Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        body = request.body
        self._check_transactional_id(request, body.transactional_id)

        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        if request.api_version >= _RAISES_EPOCH_SINCE:
            self._transactions.end_with_next_epoch(
                body.transactional_id,
                producer,
                is_commit=body.committed,
                on_done=request.deferred(lambda result: request.respond(_ended(result))),
            )
            return

        def answer(error: ErrorCode) -> None:
            request.respond(EndTxnResponse(error_code=_for_version(request, error)))

        self._transactions.end(
            body.transactional_id, producer, is_commit=body.committed, on_done=request.deferred(answer)
        )


def _for_version(request: Request[Any], error: ErrorCode) -> ErrorCode:
    """Return the error that a client of the request's version knows."""
    if error is ErrorCode.PRODUCER_FENCED and request.api_version < _FENCED_SINCE[request.handler.api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _initialized(error: ErrorCode, producer: ProducerIdAndEpoch) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _ended(result: EndResult) -> EndTxnResponse:
    producer_id, producer_epoch = result.producer
    return EndTxnResponse(error_code=result.error, producer_id=producer_id, producer_epoch=producer_epoch)


def _partitions_of(topics: Iterable[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Return the partitions that a request names, each once."""
    return list(each_once(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions))


def _with_the_others(errors: _PartitionErrors, partitions: Sequence[TopicPartition]) -> _PartitionErrors:
    """Return an error for every partition: all or none is added."""
    return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}


def _topic_results(errors: _PartitionErrors) -> list[_TopicResult]:
    by_topic: dict[str, list[_PartitionResult]] = {}
    for (topic, partition), error in errors.items():
        by_topic.setdefault(topic, []).append(_PartitionResult(partition, error))
    return [_TopicResult(topic, results) for topic, results in by_topic.items()]


def _one_answer(errors: _PartitionErrors) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(errors))


def _batch_answer(results: Mapping[str, _PartitionErrors]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[_TransactionResult(name, _topic_results(errors)) for name, errors in results.items()]
    )


def _add_partitions_error(request: Request[AddPartitionsToTxnRequest], error: ApiError) -> AddPartitionsToTxnResponse:
    """Build the answer for a request that failed as a whole: before v4 each partition has the error."""
    if request.api_version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(error_code=error.code)
    partitions = _partitions_of(request.body.v3_and_below_topics)
    return _one_answer(dict.fromkeys(partitions, _for_version(request, error.code)))
