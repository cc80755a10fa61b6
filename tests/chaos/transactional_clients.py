"""Transactional producers of three libraries, behind one protocol.

Made and used by the thread of a TransactionalWriter. Any exception of a call means: this producer is given up, and
another one with the same transactional id takes over, which ends what is open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata as KafkaPythonOffset
from kafka.structs import TopicPartition as KafkaPythonPartition

from barnabas.clients.producer import Producer, RecordMetadata
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.topic_partition import TopicPartition

Acknowledged = Callable[[bytes, int], None]
"""Told the value and the offset of a record that was delivered."""
TRANSACTION_TIMEOUT_MS = 60_000
_CALL_SECONDS = 10
PATIENCE_SECONDS = 45
"""How long a call may take before another producer takes over."""


class TransactionalClient(Protocol):
    """One producer. Every method but `send` and `close` waits for the cluster."""

    def init(self) -> None:
        """Take the transactional id over."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, partition: int, value: bytes) -> None:
        """Write a record of the transaction."""

    def send_offset(self, group: str, offset: int) -> None:
        """Commit an offset of partition 0 of the topic with the transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """End the client at once. It aborts nothing."""


class ConfluentTransactions:
    """librdkafka."""

    def __init__(self, bootstrap: str, topic: str, acknowledged: Acknowledged) -> None:
        self._bootstrap, self._topic, self._acknowledged = bootstrap, topic, acknowledged
        self._reader: ConfluentConsumer | None = None
        self._is_stuck = False
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": topic,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 2,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                # Else it may forget a broker that restarts, and wait for it for ever (docs/transactions.md).
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def init(self) -> None:
        self._insist(lambda: self._producer.init_transactions(_CALL_SECONDS))

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._acknowledged(value, message.offset())  # type: ignore[arg-type]

        self._producer.produce(self._topic, value, partition=partition, on_delivery=on_delivery)
        self._producer.poll(0)

    def send_offset(self, group: str, offset: int) -> None:
        if self._reader is None:  # the metadata of a group can only be had of a consumer
            self._reader = ConfluentConsumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0})
        metadata = self._reader.consumer_group_metadata()
        offsets = [ConfluentPartition(self._topic, 0, offset)]
        self._insist(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, _CALL_SECONDS))

    def commit(self) -> None:
        self._insist(lambda: self._producer.commit_transaction(_CALL_SECONDS))
        self._producer.poll(0)

    def abort(self) -> None:
        self._insist(lambda: self._producer.abort_transaction(_CALL_SECONDS))
        self._producer.poll(0)

    def close(self) -> None:
        if self._is_stuck:
            return  # the thread that waits for it has it
        with suppress(KafkaException):  # it raises the error that it has failed with
            self._producer.purge()
            self._producer.poll(0)
        if self._reader is not None:
            self._reader.close()

    def _insist(self, call: Callable[[], Any]) -> None:
        """Repeat a call that has timed out, as the library demands. Raises KafkaException, TimeoutError."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._call(call)
                return
            except KafkaException as problem:
                error = problem.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    raise

    def _call(self, call: Callable[[], Any]) -> None:
        """Call on another thread. Raises KafkaException, and TimeoutError when the call does not return.

        librdkafka 2.16 asks three times for the coordinator of a group. If none is available then,
        `send_offsets_to_transaction` never returns, whatever its timeout.
        """
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except KafkaException as problem:
                done.set_exception(problem)

        threading.Thread(target=run, name=f"call-{self._topic}", daemon=True).start()
        try:
            done.result(PATIENCE_SECONDS)
        except TimeoutError:
            self._is_stuck = True
            raise


class KafkaPythonTransactions:
    """kafka-python."""

    def __init__(self, bootstrap: str, topic: str, acknowledged: Acknowledged) -> None:
        self._topic, self._acknowledged = topic, acknowledged
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=topic,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=2,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
            max_block_ms=PATIENCE_SECONDS * 1000,
            delivery_timeout_ms=PATIENCE_SECONDS * 1000,
        )
        _keep_requests(self._producer)

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        future = self._producer.send(self._topic, value, partition=partition)
        future.add_callback(lambda metadata: self._acknowledged(value, metadata.offset))

    def send_offset(self, group: str, offset: int) -> None:
        offsets = {KafkaPythonPartition(self._topic, 0): KafkaPythonOffset(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


def _keep_requests(producer: KafkaProducer) -> None:
    """Mend what makes kafka-python 3.0.12 wait for ever when a coordinator refuses its connection.

    Its sender repeats a request if the coordinator is not ready in time, and loses it if the wait raises an error.
    """
    network = producer._sender._client
    await_ready = network.await_ready

    def is_ready(node_id: Any, timeout_ms: int) -> bool:
        try:
            return bool(await_ready(node_id, timeout_ms=timeout_ms))
        except KafkaPythonError:
            return False

    network.await_ready = is_ready


class BarnabasTransactions:
    """Ours."""

    def __init__(self, bootstrap: str, topic: str, acknowledged: Acknowledged) -> None:
        self._topic, self._acknowledged = topic, acknowledged
        self._producer = Producer(
            bootstrap,
            transactional_id=topic,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=2,
            max_block_ms=PATIENCE_SECONDS * 1000,
            delivery_timeout_ms=PATIENCE_SECONDS * 1000,
        )

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if error is None and metadata is not None:
                self._acknowledged(value, metadata.offset)

        self._producer.send(self._topic, value, partition=partition, on_delivery=on_delivery)

    def send_offset(self, group: str, offset: int) -> None:
        offsets = {TopicPartition(self._topic, 0): offset}
        self._producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group))

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.abort()
