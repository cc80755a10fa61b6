"""Sends records to topics, for asyncio.

Owned by the event loop on which it was started. The network, the batches and the retries are those of
`barnabas.clients.producer.Producer`, on its sending thread (decision 0031). `send` awaits metadata and memory on the
loop; what is left of the core's `send` (RecordAppender) never waits. Results come back through LoopResults. `flush` and
`stop`, for which the core waits, run on threads of their own. Kafka: KafkaProducer; the calls are named as in aiokafka.

    async with Producer("localhost:9092", linger_ms=5) as producer:
        future = await producer.send("flights", b"value", key=b"UA")
        print((await future).offset)
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from barnabas.clients.aio.call_thread import LoopResults
from barnabas.clients.aio.send_waits import SendingTurns, SendWaits
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.errors import ClientClosed, ClientTimeout, TransactionalProducerFailed
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.clients.producer import producer as core
from barnabas.clients.producer.batches.deliveries import UNREAD
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import (
    DeliveryCallback,
    Headers,
    OutgoingRecord,
    ProducerRecord,
    RecordMetadata,
    check_partition,
    check_timestamp,
)
from barnabas.clients.producer.producer_settings import ProducerSettings
from barnabas.clients.producer.producer_topics import Wait
from barnabas.clients.producer.record_appender import cluster_listeners, preparation_of
from barnabas.clients.producer.serializers import as_bytes
from barnabas.clients.producer.transactions.transaction_calls import TransactionCalls, checked_group_offsets
from barnabas.clients.producer.transactions.transaction_states import TransactionManagerState
from barnabas.clients.settings.notation import chosen_config
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch_builder import estimate_size
from barnabas.rpc.client_selector import SelectorFactory
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.transport.selector import Selector


class AsyncTransactions:
    """The transactions of one producer, on its event loop; each call awaits its answer for at most `max_block_ms`.

    The state is the core's: TransactionManager has it, under its own lock, and the sending thread sets the future of
    each operation. An operation goes on when the task that awaits it is cancelled, or when its time is over: a request
    to end a transaction cannot be taken back. Until the result has been seen, the manager takes no other operation; to
    call the same one again is to go on waiting for it.
    """

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
    """Set the event on its loop. A closed loop has no task that could wait."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(answered.set)


T = TypeVar("T")

_CALL_THREADS = 4


class Producer:
    """A producer with the settings of ProducerConfig, given by name or as a `config`. `start` it before use.

    Errors of a record (too large, no metadata or memory in time, rejected by the broker) go to its future; wrong
    arguments, use before `start` and after `stop` raise. `clock`, `random` and `make_selector` are for tests. Raises
    ValueError for invalid settings, TypeError for both kinds of settings.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: ProducerConfig | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        make_selector: SelectorFactory = Selector,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        config = chosen_config(ProducerConfig, config, settings)
        self.config = config
        # Serializers and interceptors run before the waits, which need the record's size. The core gets bytes.
        self._preparation = preparation_of(config)
        core_config = dataclasses.replace(
            config, max_block_ms=0, key_serializer="bytes", value_serializer="bytes", interceptor_classes=()
        )
        self._make_core = partial(
            core.Producer, bootstrap_servers, core_config, clock=clock, random=random, make_selector=make_selector
        )
        self._is_started = False
        self._running: _Running | None = None
        self._clock = clock if clock is not None else SystemClock()

    # -- life

    async def start(self) -> None:
        """Make the producer's threads. Brokers are looked for by the first `send`. Raises RuntimeError if started."""
        if self._is_started:
            raise RuntimeError("The producer has been started already")
        self._is_started = True
        loop = asyncio.get_running_loop()
        calls = ThreadPoolExecutor(_CALL_THREADS, thread_name_prefix="barnabas-aio-producer")
        # On a thread: the canonical names of the bootstrap servers may have to be looked up.
        making = loop.run_in_executor(calls, self._make_core)
        try:
            made = await asyncio.shield(making)
        except asyncio.CancelledError:
            (await making).close()
            calls.shutdown()
            raise
        except Exception:
            calls.shutdown()
            raise
        self._running = _Running(loop, calls, made, self.config.max_block_ms, self._clock)
        for listener in cluster_listeners(self.config, None):
            made.on_cluster_update(listener)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send the remaining records and stop. Those that remain after `timeout_ms` (None: never) fail. Idempotent.

        A transaction that is still open is aborted.
        If the call is cancelled, the remaining records fail at once; no thread stays behind in any case.
        """
        running = self._running
        if running is None or running.is_stopped:
            return
        running.is_stopped = True
        running.waits.close()
        closing = asyncio.ensure_future(running.call(partial(running.core.close, timeout_ms)))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            running.core.abort()
            await closing
            raise
        finally:
            running.results.deliver()
            # The threads are idle: every batch has ended, so no `flush` is waiting.
            running.calls.shutdown()
            if self._preparation is not None:
                self._preparation.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record, and return a future of its offset. Await metadata and memory for at most `max_block_ms`.

        The arguments are those of the synchronous producer. A cancelled call has queued nothing; to cancel the future
        does not take the record back. Raises ClientClosed, SerializationFailed, RuntimeError on another loop, and
        TypeError or ValueError for wrong arguments; with a `transactional_id` TransactionAbortable,
        TransactionalProducerFailed, and RuntimeError outside of a transaction.
        """
        running = self._usable()
        if running.transactions is not None:
            running.transactions.manager.check_may_send()
        if running.turns.is_pause_due:
            await running.turns.pause()
        future: asyncio.Future[RecordMetadata] = running.loop.create_future()
        on_delivery: DeliveryCallback | None = partial(running.results.add, future)
        if self._preparation is None:
            # As in the core: no tuple for the record is made and changed, and the exact class is looked at first.
            if value.__class__ is not bytes:
                value = as_bytes("value", value)
            if key.__class__ is not bytes:
                key = as_bytes("key", key)
            if headers.__class__ is not tuple:
                headers = tuple(headers)
        else:
            outgoing = OutgoingRecord(topic, value, key, headers, partition, timestamp_ms)
            prepared, on_delivery = self._preparation.prepare(outgoing, on_delivery)
            topic, value, key, headers, partition, timestamp_ms = prepared
        if partition is not None:
            check_partition(partition)
        if timestamp_ms is None:
            timestamp_ms = running.wall_time()
        else:
            check_timestamp(timestamp_ms)
        size = estimate_size(key, value, headers)
        record = ProducerRecord(timestamp_ms, key, value, headers, size, on_delivery)
        try:
            known = running.waits.topic_at_once(topic, partition, size)
            if known is None:
                known = await running.waits.wait(topic, partition, size)
            running.turns.note_record(size)
            # No await from the last check to here, or another task could take the memory.
            running.appender.append(topic, partition, record, known, UNREAD)
        except (ApiError, ClientTimeout) as error:
            running.waits.conditions.note_failure(topic)
            if running.transactions is not None:
                running.transactions.manager.record_failed(error)
            if on_delivery is not None:
                on_delivery(None, error)
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for its place. Raises what `send` raises, and the error of the record.

        One record after another this way is slow: each waits for the answer to the one before.
        """
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def flush(self) -> None:
        """Send all records now, and wait until each has arrived or failed."""
        running = self._usable()
        async with running.flushes:
            await running.call(running.core.flush)
        # The results are on their way to the loop. After a flush, the futures are done.
        running.results.deliver()

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the topic's partitions, fetched if needed. Raises ClientTimeout after `max_block_ms`, ApiError."""
        running = self._usable()
        await running.waits.wait_for_topic(topic)
        return running.core.partitions_for(topic)

    def metrics(self) -> dict[MetricName, float]:
        """Return what this producer has sent, by Kafka's names; not a number where nothing was measured yet."""
        return self._started().core.metrics()

    # -- transactions

    async def init_transactions(self) -> None:
        """Get a producer id, once, before the first transaction. Fences earlier producers of this `transactional_id`.

        What those have left open is committed or aborted first. Raises ClientTimeout after `max_block_ms` (call it
        again to go on waiting), TransactionalProducerFailed, RuntimeError without a `transactional_id`.
        """
        await self._transactional("init_transactions").init()

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises RuntimeError before `init_transactions` and in another transaction."""
        self._transactional("begin_transaction").begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer's offsets with the transaction; each is that of the record to read next.

        `group_metadata` is `await Consumer.group_metadata()`: a consumer that has lost its partitions is rejected by
        its generation. Raises TransactionAbortable, TransactionalProducerFailed, ClientTimeout, RuntimeError.
        """
        await self._transactional("send_offsets_to_transaction").send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Send the remaining records, wait until all have arrived, and commit them.

        Raises TransactionAbortable if one has failed: abort then. ClientTimeout after `max_block_ms`: the transaction
        may yet be committed, so call this again, also after a cancellation. TransactionalProducerFailed, RuntimeError
        outside of a transaction.
        """
        await self._transactional("commit_transaction").commit()

    async def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort the others. Readers of committed records see none of them.

        Raises TransactionalProducerFailed, ClientTimeout, RuntimeError outside of a transaction.
        """
        await self._transactional("abort_transaction").abort()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a block for `async with`: it begins a transaction, and commits it, or aborts it after an exception."""
        return self._transactional("transaction").block()

    # -- steps

    def _transactional(self, method: str) -> AsyncTransactions:
        transactions = self._usable().transactions
        if transactions is None:
            raise RuntimeError(f"Cannot use {method} without a transactional_id")
        return transactions

    def _started(self) -> _Running:
        if self._running is None:
            raise RuntimeError("Call `start`, or use `async with`, before the producer is used")
        return self._running

    def _usable(self) -> _Running:
        running = self._running or self._started()
        if running.is_stopped:
            raise ClientClosed("Cannot perform operation after producer has been closed")
        if asyncio.get_running_loop() is not running.loop:
            raise RuntimeError("This producer belongs to another event loop: make one for each loop")
        return running


class _Running:
    """The parts of a producer that was started: they belong to its loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: ThreadPoolExecutor,
        producer: core.Producer,
        max_block_ms: int,
        clock: Clock,
    ) -> None:
        self.loop = loop
        self.calls = calls
        self.core = producer
        self.appender = producer.record_appender()
        calls_of_transactions = producer.transaction_calls()
        self.transactions = (
            None if calls_of_transactions is None else AsyncTransactions(calls_of_transactions, max_block_ms)
        )
        self.wall_time = clock.milliseconds
        self.results: LoopResults[RecordMetadata] = LoopResults(loop)
        self.turns = SendingTurns(loop)
        producer.defer_wakeups(self.turns.wake_soon)
        self.waits = SendWaits(producer.send_conditions(), loop, max_block_ms)
        self.flushes = asyncio.Semaphore(_CALL_THREADS - 1)
        """The threads for `flush`: one is left for `stop`."""
        self.is_stopped = False

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function that waits on one of the threads for calls."""
        return await self.loop.run_in_executor(self.calls, function)
