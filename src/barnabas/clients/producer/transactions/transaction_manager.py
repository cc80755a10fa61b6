"""The state of a transactional producer: what the user's threads ask for, and what the coordinator has answered.

`_lock` guards everything but `may_send_to`, which belongs to the sending thread. User threads call the methods of the
first section and wait for the futures they return. The sending thread calls the rest: it takes the pending requests one
at a time (`TransactionRequests`) and reports their results. `register` runs under the accumulator's lock, so this class
never calls the accumulator, nor the sender. Kafka: TransactionManager.

One transaction, with a producer that has its id already, where transaction.version is below 2:

    user thread               sending thread                                             state
    begin_transaction                                                                    IN_TRANSACTION
    send("t", ...)            the accumulator begins a batch of t-0: `register`
                              AddPartitionsToTxn(t-0); its batch stays in the queue
                              answer: batches of t-0 may be sent, and are drained
    commit_transaction        EndTxn is pending, all batches are due                     COMMITTING
                              the last batch is acknowledged: EndTxn(commit) is sent
                              answer: the future of the commit is set                    READY

A batch that is begun after EndTxn was sent would be outside of any transaction. That cannot happen: `register` rejects
the batch in the state COMMITTING, under the lock that made it the state. EndTxn is sent only after the sending thread
has seen, later than that, that no batch is incomplete.

With transaction.version 2 (KIP-890) the first batch of t-0 adds its partition, offsets of a group add theirs, and the
answer to EndTxn has the epoch of the next transaction: a batch of this one, however late, is rejected. A transaction
keeps the version that it began with. The first one of version 2 behind one of another version needs a higher epoch,
too, so that a late batch of the old kind cannot become part of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from barnabas.clients.errors import ClientClosed
from barnabas.clients.producer.batches.sequence_numbers import NO_IDENTITY, ProducerIdentity
from barnabas.clients.producer.transactions.outcomes import (
    abortable_failure,
    copy_of_failure,
    dropped_failure,
    fatal_failure,
    is_fatal_of_batch,
    is_fencing,
)
from barnabas.clients.producer.transactions.transaction_states import (
    CurrentTransaction,
    TransactionManagerState,
    check_transition,
)
from barnabas.clients.producer.transactions.transactional_request import (
    AddOffsets,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Operation,
    PendingRequests,
    TransactionalRequest,
    TxnOffsetCommit,
    succeed,
)
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_S = TransactionManagerState
_COMPLETING = (_S.COMMITTING, _S.ABORTING)


class TransactionManager:
    """The transactions of one producer. `timeout_ms`: how long a transaction may be open before it is aborted."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self.obstacle = ""
        """Why the coordinator was not found at the last attempt; set by the sending thread."""
        self._state = _S.UNINITIALIZED
        self._error: Exception | None = None
        self._identity = NO_IDENTITY
        self._transaction = CurrentTransaction(is_version_2=False)
        self._pending = PendingRequests()
        self._operation: Operation | None = None
        self._offers_version_2 = False

    # -- threads of the user

    @property
    def state(self) -> TransactionManagerState:
        """The present state, which another thread may change at once."""
        return self._state

    def begin_init(self) -> Future[None]:
        """Ask for a producer id, which ends what an earlier producer of this transactional id has left open.

        Raises RuntimeError when the producer is initialized already, TransactionalProducerFailed.
        """

        def begin() -> Future[None]:
            self._go(_S.INITIALIZING, "call init_transactions")
            return self._pending.add(InitProducerId(self.transactional_id, self._timeout_ms))

        return self._operate("init_transactions", begin)

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises RuntimeError in a transaction and before `begin_init`, and the errors of it."""
        with self._lock:
            self._check_operation("begin_transaction")
            self._check_usable()
            self._go(_S.IN_TRANSACTION, "begin a transaction")

    def begin_send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> Future[None]:
        """Commit a group's offsets with the transaction. Raises as `check_may_send`."""

        def begin() -> Future[None]:
            self._check_in_transaction("send offsets")
            if not self._transaction.is_version_2:
                return self._pending.add(AddOffsets(self.transactional_id, self._identity, offsets, group))
            self._transaction.is_started = True
            return self._pending.add(self._offset_commit(offsets, group))

        return self._operate("send_offsets_to_transaction", begin)

    def begin_commit(self) -> Future[None]:
        """Commit the transaction once every batch has arrived.

        Raises TransactionAbortable, TransactionalProducerFailed, RuntimeError outside of a transaction.
        """
        return self._operate("commit_transaction", lambda: self._end(commits=True))

    def prepared(self) -> PreparedTransaction:
        """Return the transaction, for the client that will end it. Raises as `check_may_send`."""
        with self._lock:
            self._check_in_transaction("prepare the transaction")
            return PreparedTransaction(
                self.transactional_id, *self._identity, is_version_2=self._transaction.is_version_2
            )

    def begin_abort(self) -> Future[None]:
        """Abort the transaction. Raises TransactionalProducerFailed, RuntimeError outside of a transaction."""
        return self._operate("abort_transaction", lambda: self._end(commits=False))

    def acknowledge(self) -> None:
        """Note that the user has seen the result of the last operation, so that another one may begin."""
        with self._lock:
            self._operation = None

    def check_may_send(self) -> None:
        """Check that a record may be sent.

        Raises RuntimeError outside of a transaction, TransactionAbortable, TransactionalProducerFailed.
        """
        # Without the lock: whoever begins a batch for the record checks again.
        if self._state is not _S.IN_TRANSACTION:
            with self._lock:
                self._check_in_transaction("send a record")

    def register(self, topic_partition: TopicPartition) -> None:
        """Put the partition of a new batch into the transaction. Raises as `check_may_send`."""
        with self._lock:
            self._check_in_transaction("send a record")
            self._transaction.register(topic_partition)

    def record_failed(self, cause: Exception) -> None:
        """Note that a record came into no batch: the transaction is not whole without it."""
        self._abortable(cause, needs_new_epoch=False)

    # -- the sending thread: batches

    @property
    def is_version_2(self) -> bool:
        """Whether the batches add their partitions to the transaction."""
        return self._transaction.is_version_2

    def may_send_to(self, topic_partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be sent."""
        return self._transaction.may_send_to(topic_partition)

    @property
    def is_completing(self) -> bool:
        """Whether the transaction ends, so that no batch lingers."""
        return self._state in _COMPLETING

    def drop_reason(self) -> Exception | None:
        """Return the error of the records that are still queued, or None while they are to be sent."""
        with self._lock:
            if self._state is _S.ABORTING:
                return self._error or dropped_failure()
            return self._error if self._state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR) else None

    @property
    def has_failed(self) -> bool:
        """Whether the producer can never go on."""
        return self._state is _S.FATAL_ERROR

    def batch_failed(self, cause: Exception, *, was_numbered: bool) -> None:
        """Note that a batch ended without an acknowledgement. A numbered one may leave a gap in the log's numbers."""
        if is_fatal_of_batch(cause):
            self.fail(cause, is_fenced=is_fencing(cause))
        else:
            self._abortable(cause, needs_new_epoch=was_numbered)

    # -- the sending thread: requests

    def offer_version_2(self, *, is_offered: bool) -> None:
        """Note whether the cluster has finalized transaction.version 2. The next transaction follows it."""
        self._offers_version_2 = is_offered

    def next_request(self) -> TransactionalRequest | None:
        """Return the request to send next, which stays pending until `take`."""
        with self._lock:
            if self._state in (_S.IN_TRANSACTION, _S.COMMITTING) and (new := self._transaction.take_new()):
                self._pending.add(AddPartitions(self.transactional_id, self._identity, new))
            return self._pending.first()

    def add(self, request: TransactionalRequest) -> None:
        """Add a request of the sending thread's own: FindCoordinator."""
        with self._lock:
            self._pending.add(request)

    def take(self, request: TransactionalRequest) -> None:
        """Remove a request that is being sent. `retry` or one of the results below follows."""
        with self._lock:
            self._pending.remove(request)

    def retry(self, request: TransactionalRequest, not_before_ms: int) -> None:
        """Put a request back that was not answered, or whose error may pass."""
        with self._lock:
            request.attempts += 1
            request.not_before_ms = not_before_ms
            if self._state is _S.FATAL_ERROR or (
                self._state is _S.ABORTABLE_ERROR and isinstance(request, TxnOffsetCommit)
            ):
                self._reject(request)
            else:
                self._pending.add(request)

    def end_unstarted(self, request: EndTransaction) -> bool:
        """End a transaction of which the coordinator does not know. Returns False if the coordinator has to end it."""
        with self._lock:
            if self._transaction.is_started:
                return False
            self._pending.remove(request)
            self._completed(request.done)
            return True

    def initialized(self, request: InitProducerId, identity: ProducerIdentity) -> None:
        """Take the id and epoch that the coordinator gave."""
        with self._lock:
            if self._state is _S.INITIALIZING:
                self._identity = identity
                self._transaction = CurrentTransaction(is_version_2=self._offers_version_2)
                self._state = _S.READY
                succeed(request.done)
            else:
                self._reject(request)

    def partitions_added(self, request: AddPartitions) -> None:
        """Let the batches of these partitions be sent."""
        with self._lock:
            self._transaction.add(request.partitions)
            succeed(request.done)

    def offsets_added(self, request: AddOffsets) -> None:
        """Commit the offsets, now that the coordinator has the group in the transaction."""
        with self._lock:
            self._transaction.is_started = True
            if self._state is _S.IN_TRANSACTION:
                commit = self._offset_commit(request.offsets, request.group)
                commit.done = request.done
                self._pending.add(commit)
            else:
                self._reject(request)

    def offsets_committed(self, request: TxnOffsetCommit) -> None:
        """Note that the group's coordinator has the offsets."""
        with self._lock:
            succeed(request.done)

    def ended(self, request: EndTransaction, next_identity: ProducerIdentity | None) -> None:
        """Note that the coordinator has ended the transaction. None: the producer keeps its id and epoch."""
        with self._lock:
            if next_identity is not None:
                self._identity = next_identity
                self._transaction.needs_new_epoch = False
            self._completed(request.done)

    def abort(self, request: TransactionalRequest, cause: ApiError, *, needs_new_epoch: bool) -> None:
        """Note an error in the answer to a request, after which the transaction can only be aborted."""
        if isinstance(request, EndTransaction):
            with self._lock:
                if needs_new_epoch:
                    # The coordinator has forgotten the producer, and the transaction with it: there is nothing to end.
                    self._transaction.is_started = False
                is_aborting = self._state is _S.ABORTING
                if is_aborting and needs_new_epoch:
                    self._transaction.needs_new_epoch = True
                    self._completed(request.done)
            if is_aborting:
                if not needs_new_epoch:
                    self.fail(cause, request)
                return
        self._abortable(cause, needs_new_epoch=needs_new_epoch)
        with self._lock:
            self._reject(request)

    def fail(self, cause: Exception, request: TransactionalRequest | None = None, *, is_fenced: bool = False) -> None:
        """Note that the producer can never go on; everything that waits fails."""
        with self._lock:
            if self._state is not _S.FATAL_ERROR:
                log = logger.debug if isinstance(cause, ClientClosed) else logger.error
                log("The transactional producer %s cannot go on: %s", self.transactional_id, cause)
                self._state = _S.FATAL_ERROR
                self._error = fatal_failure(cause, is_fenced=is_fenced)
            for each in [*self._pending.take_all(), request, self._operation]:
                if each is not None:
                    self._reject(each)

    # -- the end of the producer, on the sending thread

    def abort_for_close(self) -> bool:
        """Abort a transaction that is still open. Returns whether requests are pending that a close waits for."""
        with self._lock:
            if self._state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                logger.info("Aborting the incomplete transaction of %s due to shutdown", self.transactional_id)
                self._end(commits=False)
            # As in Kafka, no close waits for a producer id: there may never be a coordinator that gives one.
            return bool(self._pending) and self._state is not _S.INITIALIZING

    # -- steps, under the lock

    def _operate(self, name: str, begin: Callable[[], Future[None]]) -> Future[None]:
        """Begin an operation; or return the result of an earlier call of the same method, which has timed out."""
        with self._lock:
            if self._operation is not None:
                self._check_operation(name)
                return self._operation.done
            if self._state is _S.FATAL_ERROR:
                self._check_usable()
            done = begin()
            self._operation = Operation(name, done)
            return done

    def _check_operation(self, name: str) -> None:
        if self._operation is not None and self._operation.name != name:
            raise RuntimeError(
                f"Cannot call {name}: the previous call of {self._operation.name} has not ended, or has timed out and"
                " must be repeated first"
            )

    def _check_usable(self) -> None:
        """Check that the transaction and the producer have not failed. Raises the error that they failed with."""
        if self._error is not None and self._state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR):
            raise copy_of_failure(self._error)

    def _check_in_transaction(self, operation: str) -> None:
        self._check_usable()
        if self._state is not _S.IN_TRANSACTION:
            raise RuntimeError(f"Cannot {operation} outside of a transaction: the producer is {self._state.value}")

    def _go(self, target: TransactionManagerState, operation: str) -> None:
        check_transition(self._state, target, operation)
        self._state = target

    def _offset_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TxnOffsetCommit:
        is_version_2 = self._transaction.is_version_2
        return TxnOffsetCommit(self.transactional_id, self._identity, offsets, group, is_version_2=is_version_2)

    def _end(self, *, commits: bool) -> Future[None]:
        if commits:
            self._check_usable()
        self._go(_S.COMMITTING if commits else _S.ABORTING, f"{'commit' if commits else 'abort'} a transaction")
        if not commits:
            # Their batches are dropped, so the coordinator need not know of them.
            self._transaction.take_new()
        return self._pending.add(
            EndTransaction(
                self.transactional_id, self._identity, commits=commits, is_version_2=self._transaction.is_version_2
            )
        )

    def _completed(self, done: Future[None]) -> None:
        """Make the producer ready for the next transaction, after a new epoch if it needs one."""
        if self._state not in _COMPLETING:
            return
        needs_new_epoch = self._transaction.needs_new_epoch or (
            self._offers_version_2 and not self._transaction.is_version_2
        )
        self._transaction = CurrentTransaction(is_version_2=self._offers_version_2)
        self._error = None
        if needs_new_epoch:
            self._state = _S.INITIALIZING
            request = InitProducerId(self.transactional_id, self._timeout_ms, raised=self._identity)
            request.done = done
            self._pending.add(request)
        else:
            self._state = _S.READY
            succeed(done)

    def _abortable(self, cause: Exception, *, needs_new_epoch: bool) -> None:
        with self._lock:
            if self._state not in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR):
                return
            self._transaction.needs_new_epoch |= needs_new_epoch
            # The first error is the reason for those that follow; and a transaction that is being aborted can go on.
            if self._state in (_S.ABORTING, _S.ABORTABLE_ERROR):
                return
            logger.info("The transaction of %s has to be aborted: %s", self.transactional_id, cause)
            self._state = _S.ABORTABLE_ERROR
            self._error = abortable_failure(cause)
            for request in self._pending.take_of_failed_transaction():
                self._reject(request)

    def _reject(self, request: TransactionalRequest | Operation) -> None:
        """Give the user who waits for a request the error of the transaction or the producer."""
        if not request.done.done():
            request.done.set_exception(self._error or dropped_failure())
