"""The requests of a transactional producer: their coordinators, versions and errors, and those that are pending.

Made by `TransactionManager`, whose lock guards the pending ones, and sent by `TransactionRequests`.
Kafka: TransactionManager.TxnRequestHandler and its kinds.

A transaction of transaction.version 2 (KIP-890) needs the versions by which the brokers do a part of the client's work:
TxnOffsetCommit v5 adds the group's partition, and EndTxn v5 raises the epoch. Other transactions must not use them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from enum import IntEnum
from typing import ClassVar, NamedTuple

from barnabas.clients.producer.batches.sequence_numbers import NO_IDENTITY, ProducerIdentity
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.rpc.client_request import RequestBuilder, fixed_message

_SINGLE_KEY_VERSION = 3
_BEFORE_VERSION_2 = (0, 4)
_VERSION_2 = (5, 5)
"""The versions of EndTxn and TxnOffsetCommit."""


class Priority(IntEnum):
    """The order in which pending requests are sent. Of equal ones, the first that was made goes first."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TRANSACTION = 3
    RAISE_EPOCH = 4


class CoordinatorKey(NamedTuple):
    """A group id or a transactional id, with its type in FindCoordinator."""

    key_type: int
    key: str

    @property
    def text(self) -> str:
        """The key for messages."""
        return f"{'transactional id' if self.key_type else 'group'} {self.key}"


def group_key(group_id: str) -> CoordinatorKey:
    """Return the key of a group's coordinator."""
    return CoordinatorKey(0, group_id)


def transaction_key(transactional_id: str) -> CoordinatorKey:
    """Return the key of the coordinator of a transactional id."""
    return CoordinatorKey(1, transactional_id)


class TransactionalRequest(ABC):
    """One request, until its `done` has a result. `coordinator`: the node that answers, or None for any."""

    api: ClassVar[ApiKey]

    def __init__(self, priority: Priority, coordinator: CoordinatorKey | None, builder: RequestBuilder) -> None:
        self.priority = priority
        self.coordinator = coordinator
        self.builder = builder
        self.done: Future[None] = Future()
        self.not_before_ms = 0
        self.attempts = 0

    @abstractmethod
    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield every error code of an answer, NONE included."""


class FindCoordinator(TransactionalRequest):
    """Where is the coordinator of `wanted`? v4 and later take several keys."""

    api = ApiKey.FIND_COORDINATOR

    def __init__(self, wanted: CoordinatorKey) -> None:
        def build(version: int) -> FindCoordinatorRequest:
            if version <= _SINGLE_KEY_VERSION:
                return FindCoordinatorRequest(key=wanted.key, key_type=wanted.key_type)
            return FindCoordinatorRequest(coordinator_keys=[wanted.key], key_type=wanted.key_type)

        super().__init__(Priority.FIND_COORDINATOR, None, RequestBuilder(FindCoordinatorRequest, build, (1, 4)))
        self.wanted = wanted

    @staticmethod
    def found(answer: FindCoordinatorResponse) -> FindCoordinatorResponse | FindCoordinatorResponse.Coordinator:
        """Return the part of an answer that names the node."""
        return answer.coordinators[0] if answer.coordinators else answer

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of an answer."""
        assert isinstance(answer, FindCoordinatorResponse)
        yield error_of(self.found(answer).error_code)


class InitProducerId(TransactionalRequest):
    """Give the producer an id; or raise the epoch of the one it has, `raised` (KIP-360)."""

    api = ApiKey.INIT_PRODUCER_ID

    def __init__(self, transactional_id: str, timeout_ms: int, raised: ProducerIdentity | None = None) -> None:
        message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if raised is not None:
            message.producer_id, message.producer_epoch = raised
        super().__init__(
            Priority.INIT_PRODUCER_ID if raised is None else Priority.RAISE_EPOCH,
            transaction_key(transactional_id),
            # Before version 3 a producer cannot say which id it has: it would fence itself.
            fixed_message(message, (0 if raised is None else 3, 5)),
        )

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of an answer."""
        assert isinstance(answer, InitProducerIdResponse)
        yield error_of(answer.error_code)


class AddPartitions(TransactionalRequest):
    """Put `partitions` into the transaction."""

    api = ApiKey.ADD_PARTITIONS_TO_TXN

    def __init__(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> None:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        key = transaction_key(transactional_id)
        super().__init__(Priority.ADD_PARTITIONS_OR_OFFSETS, key, fixed_message(message, (0, 3)))
        self.partitions = partitions

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of each partition."""
        assert isinstance(answer, AddPartitionsToTxnResponse)
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                yield error_of(each.partition_error_code)


class AddOffsets(TransactionalRequest):
    """Put the group into the transaction; then `offsets` can be committed for it."""

    api = ApiKey.ADD_OFFSETS_TO_TXN

    def __init__(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        message = AddOffsetsToTxnRequest(transactional_id, *identity, group.group_id)
        key = transaction_key(transactional_id)
        super().__init__(Priority.ADD_PARTITIONS_OR_OFFSETS, key, fixed_message(message, (0, 4)))
        self.offsets = offsets
        self.group = group

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of an answer."""
        assert isinstance(answer, AddOffsetsToTxnResponse)
        yield error_of(answer.error_code)


class TxnOffsetCommit(TransactionalRequest):
    """Commit a group's offsets with the transaction."""

    api = ApiKey.TXN_OFFSET_COMMIT

    def __init__(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        is_version_2: bool,
    ) -> None:
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                topic, [_offset_of(index, offsets[TopicPartition(topic, index)]) for index in indexes]
            )
            for topic, indexes in by_topic(offsets).items()
        ]

        def build(version: int) -> TxnOffsetCommitRequest:
            message = TxnOffsetCommitRequest(transactional_id, group.group_id, *identity, topics=topics)
            # Brokers before Kafka 2.5 do not fence by generation; the transactional id alone protects the group there.
            if version >= 3:
                message.generation_id = group.generation_id
                message.member_id = group.member_id
                message.group_instance_id = group.group_instance_id
            return message

        # A retry sends all offsets again: to commit an offset twice in one transaction changes nothing.
        versions = _VERSION_2 if is_version_2 else _BEFORE_VERSION_2
        super().__init__(
            Priority.ADD_PARTITIONS_OR_OFFSETS,
            group_key(group.group_id),
            RequestBuilder(TxnOffsetCommitRequest, build, versions),
        )

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of each partition."""
        assert isinstance(answer, TxnOffsetCommitResponse)
        for topic in answer.topics:
            for each in topic.partitions:
                yield error_of(each.error_code)


def _offset_of(index: int, offset: OffsetAndMetadata) -> TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


class EndTransaction(TransactionalRequest):
    """Commit the transaction, or abort it."""

    api = ApiKey.END_TXN

    def __init__(self, transactional_id: str, identity: ProducerIdentity, *, commits: bool, is_version_2: bool) -> None:
        message = EndTxnRequest(transactional_id, *identity, commits)
        key = transaction_key(transactional_id)
        versions = _VERSION_2 if is_version_2 else _BEFORE_VERSION_2
        super().__init__(Priority.END_TRANSACTION, key, fixed_message(message, versions))

    def errors_in(self, answer: Message) -> Iterator[ErrorCode]:
        """Yield the error code of an answer."""
        assert isinstance(answer, EndTxnResponse)
        yield error_of(answer.error_code)

    @staticmethod
    def next_identity(answer: EndTxnResponse) -> ProducerIdentity | None:
        """Return the id and epoch of the producer's next transaction, or None when it keeps its own."""
        if answer.producer_id == NO_IDENTITY.producer_id:
            return None
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)


class Operation(NamedTuple):
    """A call of a user that waits for the coordinator, by the method's name, and its result."""

    name: str
    done: Future[None]


class PendingRequests:
    """The requests that are to be sent, in the order of their priorities."""

    def __init__(self) -> None:
        self._requests: list[TransactionalRequest] = []

    def __bool__(self) -> bool:
        """Return whether a request is to be sent."""
        return bool(self._requests)

    def add(self, request: TransactionalRequest) -> Future[None]:
        """Add a request. Returns its result."""
        self._requests.append(request)
        return request.done

    def first(self) -> TransactionalRequest | None:
        """Return the first of those with the lowest priority, which stays pending."""
        return min(self._requests, key=lambda request: request.priority, default=None)

    def remove(self, request: TransactionalRequest) -> None:
        """Remove a request that is being sent, or need not be sent."""
        self._requests.remove(request)

    def take_all(self) -> list[TransactionalRequest]:
        """Remove and return all requests: the producer has failed."""
        taken, self._requests = self._requests, []
        return taken

    def take_of_failed_transaction(self) -> list[TransactionalRequest]:
        """Return all requests, whose calls fail with the transaction, and remove those that need not be sent.

        A request whose answer was lost may have begun the transaction at the coordinator. It is sent again, so that
        the producer knows whether there is a transaction to abort.
        """
        taken = self.take_all()
        self._requests = [
            request
            for request in taken
            if isinstance(request, FindCoordinator)
            or (isinstance(request, (AddPartitions, AddOffsets)) and request.attempts > 0)
        ]
        return taken


def succeed(done: Future[None]) -> None:
    """Set the result, unless it has failed before, with its transaction."""
    if not done.done():
        done.set_result(None)
