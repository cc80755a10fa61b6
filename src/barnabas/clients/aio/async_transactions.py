"""The transactions of an asyncio producer: its tasks await the coordinator, and no thread waits.

Made by `aio.Producer` and owned by its event loop. The transactions themselves are the core's: TransactionManager has
the state, under its own lock, and the sending thread sets the future of each operation. Kafka: KafkaProducer.

An operation goes on when the task that awaits it is cancelled, or when its time is over: a request to end a transaction
cannot be taken back. Until the result has been seen, the manager takes no other operation; to call the same one again
is to go on waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

from barnabas.clients.errors import ClientTimeout, TransactionalProducerFailed
from barnabas.clients.producer.producer_topics import Wait
from barnabas.clients.producer.transactions.transaction_calls import TransactionCalls, checked_group_offsets
from barnabas.clients.producer.transactions.transaction_states import TransactionManagerState
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition


class AsyncTransactions:
    """The calls on one producer; each awaits its answer for at most `max_block_ms`."""

    def __init__(self, calls: TransactionCalls, max_block_ms: int) -> None:
        self.manager = calls.manager
        self._calls = calls
        self._waits = calls.waits
        self._wakeup = calls.wakeup
        self._max_block_ms = max_block_ms

    async def init(self) -> None:
        """Get a producer id. Raises ClientTimeout, RuntimeError, TransactionalProducerFailed."""
        with self._waits.measured(Wait.TXN_INIT):
            await self._wait("init_transactions", self.manager.begin_init())

    def begin(self) -> None:
        """Begin a transaction. Raises RuntimeError before `init` and in another transaction."""
        with self._waits.measured(Wait.TXN_BEGIN):
            self.manager.begin_transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> None:
        """Commit offsets with the transaction.

        Raises ClientTimeout, TransactionAbortable, TransactionalProducerFailed; RuntimeError outside of a transaction;
        ValueError for metadata with a generation but no member.
        """
        complete = checked_group_offsets(offsets, group)
        if complete:
            with self._waits.measured(Wait.TXN_SEND_OFFSETS):
                await self._wait("send_offsets_to_transaction", self.manager.begin_send_offsets(complete, group))

    async def commit(self) -> None:
        """Commit the transaction.

        Raises ClientTimeout, TransactionAbortable, TransactionalProducerFailed; RuntimeError outside of a transaction.
        """
        with self._waits.measured(Wait.TXN_COMMIT):
            await self._wait("commit_transaction", self.manager.begin_commit())

    async def abort(self) -> None:
        """Abort the transaction. Raises ClientTimeout, TransactionalProducerFailed; RuntimeError outside of one."""
        with self._waits.measured(Wait.TXN_ABORT):
            await self._wait("abort_transaction", self.manager.begin_abort())

    @asynccontextmanager
    async def block(self) -> AsyncIterator[None]:
        """Begin a transaction, run the block of an `async with`, and commit. An exception in the block aborts.

        Raises the errors of `commit`; and of `abort`, but not for a producer that has failed: then the exception of
        the block says why.
        """
        self.begin()
        try:
            yield
        except BaseException:
            # Also a cancellation: the task may still await, and a transaction that is left open stops its readers.
            await self._abort_if_possible()
            raise
        try:
            await self.commit()
        except ClientTimeout:
            # The transaction may have been committed. Only `commit_transaction` can find out.
            raise
        except Exception:
            await self._abort_if_possible()
            raise

    async def _abort_if_possible(self) -> None:
        if self.manager.state in (TransactionManagerState.IN_TRANSACTION, TransactionManagerState.ABORTABLE_ERROR):
            try:
                await self.abort()
            except TransactionalProducerFailed:
                # The coordinator ends the transaction of a producer that has failed; the caller gets the first error.
                return

    async def _wait(self, name: str, done: Future[None]) -> None:
        """Await an operation of the sending thread. Raises its error, and ClientTimeout after `max_block_ms`."""
        self._wakeup()
        # No `asyncio.wrap_future`: to cancel that future would cancel the operation's own.
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()
        done.add_done_callback(lambda _: _call_on(loop, answered))
        left_ms = self._max_block_ms
        while not done.done():
            turn_ms = self._calls.turn_ms(left_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(turn_ms / 1000):
                    await answered.wait()
            left_ms -= turn_ms
            self._calls.check_wait(name, done, left_ms, self._max_block_ms)
        self.manager.acknowledge()
        done.result()


def _call_on(loop: asyncio.AbstractEventLoop, answered: asyncio.Event) -> None:
    """Set the event on its loop. A loop that was closed has no task any more that could wait."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(answered.set)
