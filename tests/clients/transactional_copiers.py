"""Applications that copy a topic exactly once: consume, produce, and commit the offsets in the same transaction.

Used by test_copies_over_kills.py. Each copies a few records a transaction, partition for partition. After an error that
the transaction does not survive a copier aborts and goes back to the committed offsets; after any other error
`CopierThread` throws the copier away and starts another with the same names, as a supervisor would.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final

import aiokafka
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, Message
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from barnabas.clients.consumer import Consumer
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.errors import TransactionAbortable
from barnabas.clients.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition

RECORDS_A_TRANSACTION: Final = 5
SECONDS: Final = 20
"""The longest that one call of a library takes, with all its attempts. A copier whose call takes longer is replaced:
nothing is lost but time."""
SESSION_MS: Final = 10_000
"""So long a group waits for a copier that could not leave it, because the broker was down."""
CLOSE_SECONDS: Final = 5
"""Of aiokafka, whose clients have no time-out of their own for it."""
END_SECONDS: Final = 300

PATIENCE: Final[Mapping[str, str | int]] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "log_level": 0,
    # Makes it rarer that librdkafka gives the group's coordinator up while it waits for it; see `_within`.
    "metadata.recovery.strategy": "none",
}


class Copier(ABC):
    """A consumer and a transactional producer, ready to copy when made. Owned by one thread."""

    @abstractmethod
    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        """Join the group, and fence the copier before this one."""

    @abstractmethod
    def copy_some(self) -> None:
        """Copy the next records, if there are some, in one transaction."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group; end nothing that is open."""


class ConfluentCopier(Copier):
    """By confluent-kafka, as its transactional example does it."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._producer = ConfluentProducer(
            {"bootstrap.servers": bootstrap, "transactional.id": target, "linger.ms": 0, **PATIENCE}
        )
        _while_retriable(lambda: self._producer.init_transactions(SECONDS))
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": target,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                **PATIENCE,
            }
        )
        self._consumer.subscribe([source])

    def copy_some(self) -> None:
        messages = [
            message for message in self._consumer.consume(RECORDS_A_TRANSACTION, 0.2) if message.error() is None
        ]
        if not messages:
            return
        try:
            self._copy(messages)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            _while_retriable(lambda: self._producer.abort_transaction(SECONDS))
            for place in self._consumer.committed(self._consumer.assignment(), SECONDS):
                self._consumer.seek(ConfluentPartition(place.topic, place.partition, max(place.offset, 0)))

    def _copy(self, messages: Sequence[Message]) -> None:
        self._producer.begin_transaction()
        offsets: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._producer.produce(self._target, message.value(), partition=partition)
            offsets[partition] = offset + 1
        places = [ConfluentPartition(self._source, partition, offset) for partition, offset in offsets.items()]
        member = self._consumer.consumer_group_metadata()
        _within(
            SECONDS,
            lambda: _while_retriable(lambda: self._producer.send_offsets_to_transaction(places, member, SECONDS / 2)),
        )
        _while_retriable(lambda: self._producer.commit_transaction(SECONDS))

    def close(self) -> None:
        self._consumer.close()


def _while_retriable(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            call()
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Return when `call` does. Raises TimeoutError: it takes longer; its thread is left behind.

    librdkafka removes a broker that its metadata no longer name, and may go on waiting for it as the group's
    coordinator: TxnOffsetCommit is never sent, and the call's own time-out is ignored (confluentinc/librdkafka issue
    5511).
    """
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - raised by the thread that waits
            done.set_exception(failure)

    threading.Thread(target=run, name="send-offsets", daemon=True).start()
    done.result(seconds)


class BarnabasCopier(Copier):
    """By our own clients."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._producer = Producer(bootstrap, transactional_id=target, linger_ms=0, max_block_ms=SECONDS * 1000)
        try:
            self._producer.init_transactions()
        except Exception:
            self._producer.abort()
            raise
        self._consumer = Consumer(
            bootstrap,
            group_id=target,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
            group_protocol="classic",
        )
        self._consumer.subscribe([source])

    def copy_some(self) -> None:
        records = self._consumer.poll(200, max_records=RECORDS_A_TRANSACTION)
        if not records:
            return
        try:
            self._copy(records)
        except TransactionAbortable:
            for place, committed in self._consumer.committed(self._consumer.assignment()).items():
                self._consumer.seek(place, 0 if committed is None else committed)

    def _copy(self, records: Sequence[ConsumerRecord]) -> None:
        with self._producer.transaction():
            for record in records:
                self._producer.send(self._target, record.value, partition=record.partition)
            offsets = {TopicPartition(self._source, record.partition): record.offset + 1 for record in records}
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def close(self) -> None:
        self._producer.abort()
        self._consumer.close()


class _AssignmentMoved(Exception):
    """The group took partitions away in the middle of a transaction."""


class AiokafkaCopier(Copier):
    """By aiokafka, on an event loop that runs inside the calls alone.

    aiokafka names the group in a transaction but not the member, and reads committed offsets without waiting for
    transactions that are open: a broker cannot tell that the group has moved on. So the copier watches its assignment,
    and is replaced when it loses one, or when anything fails: its successor ends the transaction before it reads the
    committed offsets.
    """

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._assignment_moved = False
        self._loop = asyncio.new_event_loop()
        try:
            self._wait(self._start(bootstrap))
        except Exception:
            self.close()
            raise

    async def _start(self, bootstrap: str) -> None:
        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=self._target)
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=self._target,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 10,
        )
        await self._producer.start()
        self._consumer.subscribe([self._source], listener=_Watch(self._lose))
        await self._consumer.start()

    def _lose(self) -> None:
        self._assignment_moved = True

    def _wait(self, call: Coroutine[Any, Any, object]) -> None:
        self._loop.run_until_complete(asyncio.wait_for(call, SECONDS))

    def copy_some(self) -> None:
        self._wait(self._copy())

    async def _copy(self) -> None:
        fetched = await self._consumer.getmany(timeout_ms=200, max_records=RECORDS_A_TRANSACTION)
        if not fetched:
            return
        await self._producer.begin_transaction()
        written = [
            await self._producer.send(self._target, record.value, partition=record.partition)
            for records in fetched.values()
            for record in records
        ]
        await asyncio.gather(*written)
        offsets = {place: records[-1].offset + 1 for place, records in fetched.items()}
        await self._producer.send_offsets_to_transaction(offsets, self._target)
        if self._assignment_moved:
            raise _AssignmentMoved
        await self._producer.commit_transaction()
        if self._assignment_moved:
            raise _AssignmentMoved

    def close(self) -> None:
        try:
            for client in (self._consumer, self._producer):
                with suppress(TimeoutError):
                    self._loop.run_until_complete(asyncio.wait_for(client.stop(), CLOSE_SECONDS))
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()


class _Watch(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells of partitions that are taken away. aiokafka calls it on the event loop."""

    def __init__(self, on_loss: Callable[[], None]) -> None:
        self._on_loss = on_loss

    def on_partitions_revoked(self, revoked: Collection[object]) -> None:
        if revoked:
            self._on_loss()

    def on_partitions_assigned(self, assigned: Collection[object]) -> None:
        pass


COPIERS: Final[Mapping[str, type[Copier]]] = {
    "confluent-kafka": ConfluentCopier,
    "barnabas": BarnabasCopier,
    "aiokafka": AiokafkaCopier,
}


class CopierThread:
    """Copies until it is told to stop. Its thread alone writes `failures`."""

    def __init__(self, copier_class: type[Copier], bootstrap: str, source: str, target: str) -> None:
        self._new_copier: Callable[[], Copier] = lambda: copier_class(bootstrap, source, target)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"copier-{target}", daemon=True)
        self.failures: list[Exception] = []
        """The errors that ended a copier."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy inside the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_stopping.set()
            self._thread.join(END_SECONDS)
            assert not self._thread.is_alive(), f"the copier does not end: {self.failures}"

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._copy()
            except Exception as failure:  # noqa: BLE001 - whatever ends it, a supervisor starts the next
                self.failures.append(failure)

    def _copy(self) -> None:
        copier = self._new_copier()
        try:
            while not self._is_stopping.is_set():
                copier.copy_some()
        finally:
            copier.close()
