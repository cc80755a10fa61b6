"""Reads records, for asyncio.

Owned by the event loop on which it was started. Positions, fetches and the group are those of
`barnabas.clients.consumer.Consumer`, which a thread of this consumer owns (`call_thread`; decision 0031). Records that
were read wait in a RecordBuffer until a task takes them, so a task that is cancelled while it waits loses none.
Kafka: KafkaConsumer; the calls are named as in aiokafka.

    async with Consumer("localhost:9092", group_id="counters", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(["flights"])
        async for record in consumer:
            print(record.partition, record.offset, record.value)
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar, Unpack

from barnabas.clients.aio.call_thread import CallThread
from barnabas.clients.aio.rebalance_listener import AnyRebalanceListener, ListenerOnLoop
from barnabas.clients.consumer import consumer as core
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.consumer.group.offset_commits import Offsets
from barnabas.clients.consumer.subscription_state import SubscriptionPattern
from barnabas.clients.errors import ClientClosed, WokenUp
from barnabas.clients.settings.notation import chosen_config
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition


class RecordBuffer:
    """The records that were read and not yet handed to a task, in order. The consumer's thread adds, the loop takes.

    One lock guards the records. They were read by the core, whose positions lie behind them. So whatever needs the
    position as the user sees it asks here first: a partition's position is the offset of its first record here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: deque[ConsumerRecord] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Add records that were read."""
        with self._lock:
            self._records.extend(records)

    def take_one(self) -> ConsumerRecord | None:
        """Remove and return the first record, or None."""
        with self._lock:
            return self._records.popleft() if self._records else None

    def take(self, limit: int | None) -> list[ConsumerRecord]:
        """Remove and return the first `limit` records, or all."""
        with self._lock:
            if limit is None or limit >= len(self._records):
                taken = list(self._records)
                self._records.clear()
                return taken
            return [self._records.popleft() for _ in range(limit)]

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Forget the records of a partition, or all."""
        with self._lock:
            kept = (
                [] if topic_partition is None else [each for each in self._records if _place(each) != topic_partition]
            )
            self._records = deque(kept)

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that has some here."""
        with self._lock:
            return self._first_offsets()

    def give_back(self) -> dict[TopicPartition, int]:
        """Forget all records. Returns the offsets of the first ones by partition, at which to read again."""
        with self._lock:
            offsets = self._first_offsets()
            self._records.clear()
            return offsets

    def _first_offsets(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for record in self._records:
            found.setdefault(_place(record), record.offset)
        return found


def _place(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[core.Consumer, P], T], *, gives_back: bool = False
) -> Callable[Concatenate[Consumer, P], Coroutine[Any, Any, T]]:
    """Return the coroutine function that runs a method of the core on the consumer's thread (`Consumer._call`)."""

    @wraps(method)
    async def call(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(lambda consumer: method(consumer, *args, **kwargs), gives_back=gives_back)

    return call


class _Running(NamedTuple):
    consumer: core.Consumer
    thread: CallThread


# `getone` seldom has to wait, and a task that never waits lets no other run.
_RECORDS_BETWEEN_YIELDS = 64
_LONGEST_POLL_MS = 3_600_000.0


class Consumer:
    """A consumer with the settings of ConsumerConfig, given by name or as a `config`. `start` it before use.

    Calls that wait do so for `default_api_timeout_ms` at most, unless they take a timeout of their own, and raise what
    those of the synchronous consumer raise; use before `start` raises RuntimeError, after `stop` ClientClosed. `make`
    makes the core (for tests). Raises ValueError for invalid settings, TypeError for both kinds of settings.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: ConsumerConfig | None = None,
        *,
        make: Callable[..., core.Consumer] = core.Consumer,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        config = chosen_config(ConsumerConfig, config, settings)
        self.config = config
        self._make_core = partial(make, bootstrap_servers, config)
        self._thread: CallThread | None = None
        self._core: core.Consumer | None = None
        self._buffer = RecordBuffer()
        self._polling = asyncio.Lock()
        self._listener_tasks: set[asyncio.Task[Any] | None] = set()
        self._taken = 0
        self._is_stopped = False

    # -- life

    async def start(self) -> None:
        """Make the consumer's thread. Brokers are looked for by the first call that needs one.

        Raises RuntimeError if it was started before.
        """
        if self._thread is not None:
            raise RuntimeError("The consumer has been started already")
        self._thread = thread = CallThread(asyncio.get_running_loop(), "barnabas-aio-consumer")
        try:
            self._core = await thread.start(self._make_core)
        except BaseException:
            self._is_stopped = True
            raise
        thread.wakes(self._core)

    async def stop(
        self, timeout_ms: float = core.DEFAULT_CLOSE_TIMEOUT_MS, *, leave_group: bool = True, commit: bool = True
    ) -> None:
        """Commit if that is automatic, leave the group (a static member stays), end the thread. Idempotent.

        What was read and not handed out is not committed, and nothing at all without `commit`. Raises what the
        listener raises, after everything is closed. If the call is cancelled, the consumer is closed all the same,
        within `timeout_ms`.
        """
        if self._thread is None or self._is_stopped:
            return
        consumer, thread = self._usable()
        self._is_stopped = True

        def close() -> None:
            self._give_back(consumer)
            consumer.close(timeout_ms, leave_group=leave_group, commit=commit)

        closing = thread.submit(close)
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise
        finally:
            thread.end()
            await thread.join()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The exception may have ended the work on a record that was handed out. A commit would skip that record.
        await self.stop(commit=error is None)

    # -- reading

    async def getone(self) -> ConsumerRecord:
        """Return the next record, and wait for it without end. Raises what `getmany` raises."""
        self._taken += 1
        # Before a record is taken: a task may be cancelled here.
        if self._taken % _RECORDS_BETWEEN_YIELDS == 0:
            await asyncio.sleep(0)
        while True:
            record = self._buffer.take_one()
            if record is not None:
                return record
            await self._fill(None)

    async def getmany(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records, in order within each partition: as soon as there are any, or none after `timeout_ms`.

        Returns at most `max_records`, and never more than `max_poll_records`. This call and `getone` also take part in
        the group: one of them has to be awaited within `max_poll_interval_ms`. A call that is cancelled loses no
        record. Raises what `Consumer.poll` raises: ApiError, CorruptRecord, RecordDeserializationError, what the
        listener raises, RuntimeError without a subscription or partitions.
        """
        if not self._buffer:
            await self._fill(asyncio.get_running_loop().time() + timeout_ms / 1000)
        return self._buffer.take(max_records)

    def __aiter__(self) -> Self:
        self._usable()
        return self

    async def __anext__(self) -> ConsumerRecord:
        # The loop over a consumer ends when the consumer is stopped; other errors leave it.
        try:
            return await self.getone()
        except ClientClosed:
            raise StopAsyncIteration from None

    async def _fill(self, deadline: float | None) -> None:
        """Poll until the buffer has records, or the loop's time is `deadline`. One task polls, the others wait.

        Raises RuntimeError in a rebalance listener, and what the poll raises.
        """
        consumer, thread = self._usable()
        loop = thread.loop
        if asyncio.current_task() in self._listener_tasks:
            raise RuntimeError("A rebalance listener cannot wait for records: the poll waits for the listener")

        def poll() -> None:
            # Records of a poll whose task was cancelled. Before the core polls again, which may commit, they are due.
            if self._buffer:
                return
            left_ms = _LONGEST_POLL_MS if deadline is None else max(deadline - loop.time(), 0) * 1000
            self._buffer.add(consumer.poll(left_ms))

        try:
            async with asyncio.timeout_at(deadline):
                await self._polling.acquire()
        except TimeoutError:
            return
        try:
            while not self._buffer:
                self._usable()
                try:
                    await thread.run(poll, gives_way=True)
                except WokenUp:
                    # Another call has had its turn. Once more, also after the deadline: the poll may have done nothing.
                    continue
                if deadline is not None and loop.time() >= deadline:
                    return
        finally:
            self._polling.release()

    # -- what to read

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: AnyRebalanceListener | None = None,
    ) -> None:
        """Read the partitions that the group assigns, of these topics or of all whose whole names match the pattern.

        `getone` and `getmany` join the group. The listener is called on the loop. Raises as `Consumer.subscribe`.
        """
        on_loop = None if listener is None else ListenerOnLoop(listener, self._usable().thread, self._listener_tasks)
        await self._call(
            lambda consumer: consumer.subscribe(topics, pattern=pattern, listener=on_loop), gives_back=True
        )

    unsubscribe = _awaited(core.Consumer.unsubscribe, gives_back=True)
    assign = _awaited(core.Consumer.assign, gives_back=True)
    subscription = _awaited(core.Consumer.subscription)
    assignment = _awaited(core.Consumer.assignment)
    enforce_rebalance = _awaited(core.Consumer.enforce_rebalance)
    group_metadata = _awaited(core.Consumer.group_metadata)

    # -- positions

    async def seek(self, topic_partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at `offset`. Raises LookupError for a partition that is not assigned, ValueError below 0."""

        def seek(consumer: core.Consumer) -> None:
            consumer.seek(topic_partition, offset)
            self._buffer.drop(topic_partition)

        await self._call(seek)

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the first offset that is still there, of these partitions or of all. Raises LookupError."""
        await self._call(lambda consumer: consumer.seek_to_beginning(self._moved(partitions)))

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the end of these partitions or of all. Raises LookupError."""
        await self._call(lambda consumer: consumer.seek_to_end(self._moved(partitions)))

    def _moved(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Drop what was read of partitions that get a new position, or of all. Returns the partitions."""
        moved = list(partitions)
        for each in moved:
            self._buffer.drop(each)
        if not moved:
            self._buffer.drop()
        return moved

    async def position(self, topic_partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record. Raises ClientTimeout, ApiError, LookupError."""

        def position(consumer: core.Consumer) -> int:
            position = consumer.position(topic_partition, timeout_ms)
            return self._buffer.first_offsets().get(topic_partition, position)

        return await self._call(position)

    pause = _awaited(core.Consumer.pause, gives_back=True)
    resume = _awaited(core.Consumer.resume)
    paused = _awaited(core.Consumer.paused)

    # -- the group's offsets

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or else the positions behind the records that were handed out, and wait for the answer.

        Raises as `Consumer.commit_sync`: ValueError, CommitFailed, ApiError, ClientTimeout. If the call is cancelled,
        the offsets may be committed all the same.
        """

        def commit(consumer: core.Consumer) -> None:
            chosen = offsets
            waiting = self._buffer.first_offsets()
            if chosen is None and waiting:
                chosen = consumer.consumed_offsets()
                chosen |= {each: OffsetAndMetadata(offset) for each, offset in waiting.items() if each in chosen}
            consumer.commit_sync(chosen, timeout_ms)

        await self._call(commit)

    committed = _awaited(core.Consumer.committed)

    # -- the cluster

    beginning_offsets = _awaited(core.Consumer.beginning_offsets)
    end_offsets = _awaited(core.Consumer.end_offsets)
    offsets_for_times = _awaited(core.Consumer.offsets_for_times)
    partitions_for = _awaited(core.Consumer.partitions_for)
    metrics = _awaited(core.Consumer.metrics)

    # -- steps

    def _usable(self) -> _Running:
        """Return the parts. Raises RuntimeError before `start` and on another loop, ClientClosed after `stop`."""
        if self._is_stopped:
            raise ClientClosed("This consumer has already been closed.")
        if self._thread is None or self._core is None:
            raise RuntimeError("Call `start`, or use `async with`, before the consumer is used")
        if asyncio.get_running_loop() is not self._thread.loop:
            raise RuntimeError("This consumer belongs to another event loop: make one for each loop")
        return _Running(self._core, self._thread)

    async def _call(self, function: Callable[[core.Consumer], T], *, gives_back: bool = False) -> T:
        """Run a function on the thread, after it has given back what no task has taken yet if `gives_back`."""
        consumer, thread = self._usable()

        def call() -> T:
            if gives_back:
                self._give_back(consumer)
            return function(consumer)

        return await thread.run(call)

    def _give_back(self, consumer: core.Consumer) -> None:
        """Let the core go on at the first record that no task has taken. On the consumer's thread."""
        assigned = consumer.assignment()
        for topic_partition, offset in self._buffer.give_back().items():
            if topic_partition in assigned:
                consumer.seek(topic_partition, offset)
