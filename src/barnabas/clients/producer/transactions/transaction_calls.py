"""The calls of a transactional producer's user, which wait for the coordinator.

Made by `Producer`; any thread. It has no state of its own but the manager's. The asyncio producer makes the same calls
on its loop, with waits of its own (`aio.producer.AsyncTransactions`). Kafka: KafkaProducer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Final

from barnabas.clients.errors import ClientTimeout, TransactionalProducerFailed
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.producer.batches.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_topics import Wait, WaitTimes
from barnabas.clients.producer.transactions.transaction_manager import TransactionManager
from barnabas.clients.producer.transactions.transaction_requests import TransactionalSequences
from barnabas.clients.producer.transactions.transaction_states import TransactionManagerState
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition

_LOOK_AGAIN_MS: Final = 100
"""How soon a call sees that no broker can be reached, which ends no operation of the sending thread."""


def transactional_sequences(config: ProducerConfig) -> TransactionalSequences:
    """Return the sequence numbers of a producer with these settings, which have a transactional id."""
    assert config.transactional_id is not None
    return TransactionalSequences(TransactionManager(config.transactional_id, config.transaction_timeout_ms))


def make_transaction_calls(
    sequences: SequenceNumbers | None,
    wakeup: Callable[[], None],
    max_block_ms: int,
    waits: WaitTimes,
    metadata: ClusterMetadata,
) -> TransactionCalls:
    """Return the calls of a producer with these sequence numbers, which are `transactional_sequences`."""
    assert isinstance(sequences, TransactionalSequences)
    return TransactionCalls(sequences.manager, wakeup, max_block_ms, waits, metadata)


def checked_group_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit. Raises ValueError for metadata with a generation but no member."""
    if group.generation_id > 0 and not group.member_id:
        raise ValueError(f"The group metadata has generation {group.generation_id}, but no member id: {group}")
    return {
        partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        for partition, offset in offsets.items()
    }


class TransactionCalls:
    """The calls on one producer. `wakeup` wakes its sending thread; each call waits at most `max_block_ms`.

    `manager`, `wakeup` and `waits` serve the asyncio producer.
    """

    def __init__(
        self,
        manager: TransactionManager,
        wakeup: Callable[[], None],
        max_block_ms: int,
        waits: WaitTimes,
        metadata: ClusterMetadata,
    ) -> None:
        self.manager = manager
        self.waits = waits
        self.wakeup = wakeup
        self._max_block_ms = max_block_ms
        self._metadata = metadata

    def init(self) -> None:
        """Get a producer id. Raises ClientTimeout, RuntimeError, TransactionalProducerFailed."""
        with self.waits.measured(Wait.TXN_INIT):
            self._wait("init_transactions", self.manager.begin_init())

    def begin(self) -> None:
        """Begin a transaction. Raises RuntimeError before `init` and in another transaction."""
        with self.waits.measured(Wait.TXN_BEGIN):
            self.manager.begin_transaction()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> None:
        """Commit offsets with the transaction.

        Raises ClientTimeout, TransactionAbortable, TransactionalProducerFailed; RuntimeError outside of a transaction;
        ValueError for metadata with a generation but no member.
        """
        complete = checked_group_offsets(offsets, group)
        if not complete:
            return
        with self.waits.measured(Wait.TXN_SEND_OFFSETS):
            self._wait("send_offsets_to_transaction", self.manager.begin_send_offsets(complete, group))

    def commit(self) -> None:
        """Commit the transaction.

        Raises ClientTimeout, TransactionAbortable, TransactionalProducerFailed; RuntimeError outside of a transaction.
        """
        with self.waits.measured(Wait.TXN_COMMIT):
            self._wait("commit_transaction", self.manager.begin_commit())

    def abort(self) -> None:
        """Abort the transaction. Raises ClientTimeout, TransactionalProducerFailed; RuntimeError outside of one."""
        with self.waits.measured(Wait.TXN_ABORT):
            self._wait("abort_transaction", self.manager.begin_abort())

    @contextmanager
    def block(self) -> Iterator[None]:
        """Begin a transaction, run the block of a `with`, and commit. An exception in the block aborts.

        Raises the errors of `commit`; and of `abort`, but not for a producer that has failed: then the exception of
        the block says why.
        """
        self.begin()
        try:
            yield
        except BaseException:
            self._abort_if_possible()
            raise
        try:
            self.commit()
        except ClientTimeout:
            # The transaction may have been committed. Only `commit_transaction` can find out.
            raise
        except Exception:
            self._abort_if_possible()
            raise

    def _abort_if_possible(self) -> None:
        if self.manager.state in (TransactionManagerState.IN_TRANSACTION, TransactionManagerState.ABORTABLE_ERROR):
            try:
                self.abort()
            except TransactionalProducerFailed:
                # The coordinator ends the transaction of a producer that has failed; the caller gets the first error.
                return

    def _wait(self, name: str, done: Future[None]) -> None:
        self.wakeup()
        left_ms = self._max_block_ms
        while not done.done():
            turn_ms = self.turn_ms(left_ms)
            wait((done,), turn_ms / 1000)
            left_ms -= turn_ms
            self.check_wait(name, done, left_ms, self._max_block_ms)
        self.manager.acknowledge()
        done.result()

    def turn_ms(self, left_ms: int) -> int:
        """Return how long a call waits before it looks again whether it should: all that is left, mostly."""
        return left_ms if self._metadata.update_version else min(left_ms, _LOOK_AGAIN_MS)

    def check_wait(self, name: str, done: Future[None], left_ms: int, max_block_ms: int) -> None:
        """Check that an operation which is not done may be awaited further.

        Raises ClientTimeout when no time is left; Unreachable then, and after `bootstrap_timeout_ms`, if no broker was
        ever reached.
        """
        if done.done():
            return
        self._metadata.raise_unreachable()
        if left_ms <= 0:
            obstacle = self.manager.obstacle
            raise self._metadata.timeout(
                f"{name} was not answered within {max_block_ms} ms (max_block_ms): "
                + (f"{obstacle}; " if obstacle else "")
                + "call it again to go on waiting"
            )
