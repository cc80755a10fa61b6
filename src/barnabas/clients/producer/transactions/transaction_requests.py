"""Sends the requests of a transactional producer to their coordinators, one at a time, and acts on the answers.

Owned by the sending thread; no lock. `Sender` calls `turn` at the beginning of each of its turns.
Kafka: Sender.maybeSendAndPollTransactionalRequest, TransactionManager.TxnRequestHandler.

Batches whose partitions are in the transaction go on being sent while a request is in flight. Their numbers are those
of TransactionalSequences.
"""

from __future__ import annotations

import logging

from barnabas.clients.errors import ClientClosed
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import (
    PRODUCE_VERSIONS,
    REFUSALS,
    ProducerIdentity,
    SequenceNumbers,
)
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.transactions.outcomes import Outcome, decisive_error, outcome_of
from barnabas.clients.producer.transactions.transaction_manager import TransactionManager
from barnabas.clients.producer.transactions.transactional_request import (
    AddOffsets,
    AddPartitions,
    CoordinatorKey,
    EndTransaction,
    FindCoordinator,
    InitProducerId,
    TransactionalRequest,
    TxnOffsetCommit,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.transactions import EndTxnResponse, InitProducerIdResponse
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.connection_states import ExponentialBackoff, Node
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient

logger = logging.getLogger(__name__)

_PLAIN_VERSIONS = (PRODUCE_VERSIONS[0], 11)
_ADDING_VERSIONS = (12, PRODUCE_VERSIONS[1])
"""The versions of Produce up to and from the first by which the leader adds the partition (KIP-890)."""


class TransactionalSequences(SequenceNumbers):
    """The numbering of a producer whose transactions `manager` keeps.

    An idempotent producer repairs a gap by a higher epoch of its own making. A transactional one may not: the
    coordinator would fence it. Its transaction is aborted instead, and the coordinator raises the epoch before the next
    one (KIP-360). `begin_batch` runs on threads that send, under the accumulator's lock.
    """

    def __init__(self, manager: TransactionManager) -> None:
        super().__init__()
        self.manager = manager

    @property
    def needs_producer_id(self) -> bool:
        """Never: `init_transactions` asks for the id."""
        return False

    @property
    def produce_versions(self) -> tuple[int, int]:
        """The versions in which the leader adds a batch's partition to the transaction, or those in which it does not.

        They change between transactions only, when no batch is queued or in flight.
        """
        return _ADDING_VERSIONS if self.manager.is_version_2 else _PLAIN_VERSIONS

    @property
    def is_urgent(self) -> bool:
        """Whether every batch is due, because the transaction ends."""
        return self.manager.is_completing

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take an id or a higher epoch from the coordinator, with which every partition begins at 0."""
        super().set_producer_id(producer_id, epoch)
        self.forget_partitions()

    def begin_batch(self, batch: ProducerBatch) -> None:
        """Put a new batch into the transaction. Raises as `TransactionManager.check_may_send`."""
        self.manager.register(batch.topic_partition)
        batch.is_transactional = True

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the batch's partition is in the transaction or adds itself, and the numbers allow it."""
        return self.manager.may_send_to(batch.topic_partition) and super().may_send(batch)

    def can_retry(self, error: ErrorCode, batch: ProducerBatch) -> bool:
        """Return whether sending the batch again, with its numbers, may help."""
        if error in REFUSALS and self.is_first_pending(batch):
            return False
        return super().can_retry(error, batch)

    def failed(self, batch: ProducerBatch, cause: Exception) -> None:
        """Note that the batch has ended without an acknowledgement, which spoils the transaction."""
        super().failed(batch, cause)
        self.manager.batch_failed(cause, was_numbered=batch.has_sequence)

    @property
    def can_restart(self) -> bool:
        """Never: only the end of the transaction restarts a partition."""
        return False

    def restart_partitions(self) -> None:
        """Leave the partitions as they are until the transaction has ended."""


_FEATURE = "transaction.version"
_VERSION_2 = 2
"""The level of the feature from which on brokers add partitions and raise epochs (KIP-890)."""

_PREVIOUS_ENDS_MS = 20
"""The wait while the coordinator ends the previous transaction, which takes a few milliseconds (Kafka's value)."""


class TransactionRequests:
    """The requests of one producer. `sequences` gets the ids that the coordinator gives."""

    def __init__(
        self,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        sequences: TransactionalSequences,
        config: ProducerConfig,
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._sequences = sequences
        self._manager: TransactionManager = sequences.manager
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, None)
        self._coordinators: dict[CoordinatorKey, Node] = {}
        self._is_waiting = False
        """Whether a request is in flight."""

    def turn(self, now_ms: int) -> int:
        """Drop the records of a failed transaction, and send the next request if it is due.

        Returns the milliseconds until the next call makes sense; an answer makes it too.
        """
        reason = self._manager.drop_reason()
        if reason is not None:
            # A numbered batch may be in the log already, so it is sent again until its fate is known: else the numbers
            # of the next transaction might not fit. A producer that has failed sends no more at all.
            self._accumulator.abort_undrained(reason, keeps_numbered=not self._manager.has_failed)
        if self._is_waiting:
            return FOREVER_MS
        self._manager.offer_version_2(is_offered=self._client.feature_level(_FEATURE) >= _VERSION_2)
        request = self._manager.next_request()
        if request is None:
            return FOREVER_MS
        if isinstance(request, EndTransaction):
            # After `next_request`: from the time that EndTxn is pending, no batch can be begun.
            if self._accumulator.has_incomplete():
                return FOREVER_MS
            if self._manager.end_unstarted(request):
                return 0
        if now_ms < request.not_before_ms:
            return request.not_before_ms - now_ms
        node = self._node_for(request, now_ms)
        if isinstance(node, int):
            return node
        self._manager.take(request)
        self._is_waiting = True
        sent = self._client.new_request(
            node.id, request.builder, callback=lambda response: self._handle(request, response)
        )
        self._client.send(sent, now_ms)
        return FOREVER_MS

    def must_go_on(self) -> bool:
        """Return whether a producer that closes still has a transaction to end. An open one is aborted."""
        return self._manager.abort_for_close() or self._is_waiting

    def closed(self) -> None:
        """Fail the calls that wait for a transaction, because the sending thread ends."""
        self._manager.fail(ClientClosed("The producer was closed."))

    # -- sending

    def _node_for(self, request: TransactionalRequest, now_ms: int) -> Node | int:
        """Return the node to send to, once it takes requests; or the milliseconds to wait before the next look."""
        key = request.coordinator
        node = self._client.least_loaded_node(now_ms) if key is None else self._coordinators.get(key)
        if node is None:
            if key is None:
                return self._backoff.after(0)
            self._manager.add(FindCoordinator(key))
            return 0
        if self._client.ready(node, now_ms):
            return node
        delay_ms = self._client.poll_delay_ms(node, now_ms)
        if key is not None and delay_ms is not None and self._client.connection_failed(node, now_ms):
            # The coordinator may have moved to another node while this one is down.
            del self._coordinators[key]
            request.not_before_ms = now_ms + delay_ms
        return FOREVER_MS if delay_ms is None else delay_ms

    # -- answers

    def _handle(self, request: TransactionalRequest, response: ClientResponse) -> None:
        self._is_waiting = False
        now_ms = response.received_ms
        if response.version_error is not None:
            text = f"The broker does not support a request of transactions: {response.version_error}."
            self._manager.fail(ApiError(ErrorCode.UNSUPPORTED_VERSION, text), request)
        elif response.body is None:
            logger.debug("Disconnected from node %d, which was asked %s", response.request.node_id, request.api.name)
            self._retry(request, self._backoff.after(request.attempts), now_ms, forgets_coordinator=True)
        else:
            self._take_answer(request, response.body, now_ms)

    def _take_answer(self, request: TransactionalRequest, answer: Message, now_ms: int) -> None:
        error = decisive_error(request.api, request.errors_in(answer))
        outcome = outcome_of(request.api, error)
        if isinstance(request, FindCoordinator):
            assert isinstance(answer, FindCoordinatorResponse)
            text = request.found(answer).error_message or error.message
            self._manager.obstacle = "" if outcome is Outcome.DONE else text
        if outcome is not Outcome.DONE:
            logger.debug("%s: %s, %s", request.api.name, error.name, outcome.name)
        cause = ApiError(error, _text_of(request, error))
        if outcome is Outcome.DONE:
            self._succeed(request, answer)
        elif outcome is Outcome.FENCED:
            self._manager.fail(cause, request, is_fenced=True)
        elif outcome is Outcome.FAIL:
            self._manager.fail(cause, request)
        elif outcome in (Outcome.ABORT, Outcome.ABORT_AND_RAISE_EPOCH):
            self._manager.abort(request, cause, needs_new_epoch=outcome is Outcome.ABORT_AND_RAISE_EPOCH)
        elif outcome is Outcome.WAIT_FOR_PREVIOUS:
            self._retry(request, _PREVIOUS_ENDS_MS, now_ms)
        else:
            forgets = outcome is Outcome.REDISCOVER
            self._retry(request, self._backoff.after(request.attempts), now_ms, forgets_coordinator=forgets)

    def _retry(
        self, request: TransactionalRequest, wait_ms: int, now_ms: int, *, forgets_coordinator: bool = False
    ) -> None:
        if forgets_coordinator and request.coordinator is not None:
            self._coordinators.pop(request.coordinator, None)
        self._manager.retry(request, now_ms + wait_ms)

    def _succeed(self, request: TransactionalRequest, answer: Message) -> None:
        match request:
            case FindCoordinator():
                assert isinstance(answer, FindCoordinatorResponse)
                found = request.found(answer)
                logger.info("Discovered the coordinator of %s: node %d", request.wanted.text, found.node_id)
                self._coordinators[request.wanted] = Node(found.node_id, found.host, found.port)
            case InitProducerId():
                assert isinstance(answer, InitProducerIdResponse)
                logger.info("ProducerId set to %d with epoch %d", answer.producer_id, answer.producer_epoch)
                # Before the manager is ready: the next transaction's first batch needs the id.
                self._sequences.set_producer_id(answer.producer_id, answer.producer_epoch)
                self._manager.initialized(request, ProducerIdentity(answer.producer_id, answer.producer_epoch))
            case AddPartitions():
                self._manager.partitions_added(request)
            case AddOffsets():
                self._manager.offsets_added(request)
            case TxnOffsetCommit():
                self._manager.offsets_committed(request)
            case EndTransaction():
                assert isinstance(answer, EndTxnResponse)
                next_identity = request.next_identity(answer)
                if next_identity is not None:
                    self._sequences.set_producer_id(*next_identity)
                self._manager.ended(request, next_identity)


def _text_of(request: TransactionalRequest, error: ErrorCode) -> str:
    """Return an error's text, with what the error is about."""
    if isinstance(request, AddPartitions):
        names = ", ".join(str(each) for each in request.partitions)
        return f"{error.message} The partitions to add to the transaction: {names}."
    if isinstance(request, TxnOffsetCommit) and error in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    ):
        return f"The consumer is no longer a member of its group in that generation: {error.message}"
    return f"{error.message} ({request.api.name})"
