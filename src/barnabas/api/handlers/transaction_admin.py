"""DescribeTransactions: v0. ListTransactions: v0-1. DescribeProducers: v0. Requests of administrators (KIP-664).

Not brief: a broker may coordinate very many transactional ids, and a partition may know very many producers.

ListTransactions v1: only transactions open for longer than a duration (KIP-994). v2 would filter ids by a pattern.

Kafka: KafkaApis.handleDescribeTransactionsRequest, handleListTransactionsRequest, handleDescribeProducersRequest,
Partition.activeProducerState.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from barnabas.api.authorize import Authorizer, is_allowed, permitted
from barnabas.api.brief import each_once
from barnabas.api.request import Handler, Request
from barnabas.coordinator.transaction.transaction_admin import TransactionAdmin, TransactionFilter
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

PartitionResponse = DescribeProducersResponse.PartitionResponse
_Described = DescribeTransactionsResponse.TransactionState

WITHOUT_PATTERNS: Final = (0, 1)


class TransactionAdminApi:
    """Shows the transactions of this broker's coordinator."""

    def __init__(self, admin: TransactionAdmin, authorizer: Authorizer | None) -> None:
        self._admin = admin
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_TRANSACTIONS, self.describe_transactions, error_answer=_description_error),
            Handler(ApiKey.LIST_TRANSACTIONS, self.list_transactions, versions=WITHOUT_PATTERNS),
        )

    def describe_transactions(self, request: Request[DescribeTransactionsRequest]) -> None:
        """Answer every transactional id on its own, one named twice once; topics that the client may not describe are
        left out."""
        states = [self._described(request, each) for each in each_once(request.body.transactional_ids)]
        request.respond(DescribeTransactionsResponse(transaction_states=states))

    def _described(self, request: Request[Any], transactional_id: str) -> _Described:
        describe, kind = AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID
        if not is_allowed(self._authorizer, request, describe, kind, transactional_id):
            return _Described(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
        try:
            metadata = self._admin.describe(transactional_id)
        except ApiError as error:
            return _Described(error.code, transactional_id)
        names = [each.topic for each in metadata.partitions]
        visible = permitted(self._authorizer, request, describe, ResourceType.TOPIC, names, log_if_denied=False)
        return _Described(
            error_code=ErrorCode.NONE,
            transactional_id=transactional_id,
            transaction_state=metadata.state.shown_name,
            transaction_timeout_ms=metadata.timeout_ms,
            transaction_start_time_ms=metadata.start_ms,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            topics=_topics(each for each in metadata.partitions if each.topic in visible),
        )

    def list_transactions(self, request: Request[ListTransactionsRequest]) -> None:
        """List the transactions that the client may describe.

        Raises ApiError: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
        """
        body = request.body
        wanted = TransactionFilter(body.state_filters, frozenset(body.producer_id_filters), body.duration_filter)
        listed = self._admin.list_transactions(wanted)
        names = [each.transactional_id for each in listed.transactions]
        describe, kind = AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID
        visible = permitted(self._authorizer, request, describe, kind, names, log_if_denied=False)
        request.respond(
            ListTransactionsResponse(
                error_code=ErrorCode.NONE,
                unknown_state_filters=list(listed.unknown_states),
                transaction_states=[
                    ListTransactionsResponse.TransactionState(
                        each.transactional_id, each.producer_id, each.state.shown_name
                    )
                    for each in listed.transactions
                    if each.transactional_id in visible
                ],
            )
        )


def _description_error(request: Request[DescribeTransactionsRequest], error: ApiError) -> DescribeTransactionsResponse:
    """Build the answer for a request that failed as a whole: each transactional id has the error."""
    return DescribeTransactionsResponse(
        transaction_states=[_Described(error.code, each) for each in request.body.transactional_ids]
    )


def _topics(partitions: Iterable[TopicPartition]) -> list[DescribeTransactionsResponse.TopicData]:
    return [
        DescribeTransactionsResponse.TopicData(topic, numbers)
        for topic, numbers in by_topic(sorted(partitions)).items()
    ]


class ProducersApi:
    """Shows the idempotent and transactional producers that partitions know; any replica answers, not only leaders."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._hosted = replicas.hosted
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_PRODUCERS, self.describe_producers),)

    def describe_producers(self, request: Request[DescribeProducersRequest]) -> None:
        """Answer every partition on its own, one named twice once."""
        response = DescribeProducersResponse()
        # Each partition once: four bytes could ask for all of its producers, again and again.
        asked: dict[str, dict[int, None]] = {}
        for topic in request.body.topics:
            asked.setdefault(topic.name, {}).update(each_once(topic.partition_indexes))
        for name, indexes in asked.items():
            answer = DescribeProducersResponse.TopicResponse(name)
            response.topics.append(answer)
            try:
                self._check_topic(request, name)
            except ApiError as error:
                answer.partitions = [_failed(index, error) for index in indexes]
            else:
                answer.partitions = [self._partition(name, index) for index in indexes]
        request.respond(response)

    def _check_topic(self, request: Request[DescribeProducersRequest], name: str) -> None:
        """Check name, permission and existence. Raises ApiError with the first that fails."""
        # In Kafka's order: the name, the permission, and only then whether the topic exists.
        validate_topic_name(name)
        if not is_allowed(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not self._metadata.contains(name):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _partition(self, topic: str, index: int) -> PartitionResponse:
        try:
            partition = self._hosted.partition_or_error(topic, index)
        except ApiError as error:
            return PartitionResponse(index, error.code)
        return PartitionResponse(
            index,
            ErrorCode.NONE,
            active_producers=[
                DescribeProducersResponse.ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.current_transaction_start_offset,
                )
                for producer in partition.log.producers.active()
            ],
        )


def _failed(index: int, error: ApiError) -> PartitionResponse:
    return PartitionResponse(index, error.code, error.message)
