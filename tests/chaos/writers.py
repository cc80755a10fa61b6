"""Producers of two client libraries that write until they rest, outlive the broker, and note what they were told.

Each has a thread of its own, which alone touches its client. The idempotent ones must get every record in exactly
once and in order, whatever happens to the broker; the one with acks=1 never sends a record twice.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

from tests.chaos.ledger import Ledger

logger = logging.getLogger(__name__)

GIVE_UP_SECONDS = 60
"""How long a record may stay undecided after the broker is back."""

PAUSE_SECONDS = 0.012
"""Between two bursts of a writer: what it wrote has to be read again after every life of the broker."""

MAX_OUTSTANDING = 3_000
"""With more undecided records a writer waits: a broker that is away for long must not cost the memory of the tests."""

Delivered = Callable[[int, bytes, int | None], None]
"""Told partition, value and offset (None: it failed)."""


class Client(Protocol):
    """One producer of some library."""

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        """Take a record; its fate is reported to the `Delivered` callback."""

    def serve(self) -> None:
        """Let callbacks run."""

    def close(self, timeout_seconds: float) -> None:
        """End it; what is not delivered in time is given up."""


class ConfluentClient:
    """librdkafka: idempotent, or acks=1 without retries."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        delivered: Delivered,
        *,
        idempotent: bool,
        give_up_seconds: int = GIVE_UP_SECONDS,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        """security: the settings of its connections."""
        self._topic = topic
        self._delivered = delivered
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 2,
            "batch.num.messages": 40,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "message.timeout.ms": give_up_seconds * 1000,
            "log_level": 0,
            **(security or {}),
        }
        if idempotent:
            settings |= {"enable.idempotence": True}
        else:
            settings |= {"acks": 1, "retries": 0, "message.timeout.ms": 5000}
        self._idempotent = idempotent
        self._producer = Producer(settings)

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None and self._idempotent:
                logger.warning("%s-%d: %s", self._topic, partition, error)
            self._delivered(partition, value, None if error is not None else message.offset())

        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, on_delivery)
                return
            except BufferError:
                self._producer.poll(0.05)

    def serve(self) -> None:
        self._producer.poll(0.01)

    def close(self, timeout_seconds: float) -> None:
        self._producer.flush(timeout_seconds)


class KafkaPythonClient:
    """kafka-python: idempotent."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        delivered: Delivered,
        give_up_seconds: int = GIVE_UP_SECONDS,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        """security: the settings of its connections."""
        self._topic = topic
        self._delivered = delivered
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            enable_idempotence=True,
            linger_ms=2,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
            delivery_timeout_ms=give_up_seconds * 1000,
            **{"request_timeout_ms": 10_000, **(security or {})},
        )

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        future = self._producer.send(self._topic, value, key, partition=partition)
        future.add_callback(lambda metadata: self._delivered(partition, value, metadata.offset))
        future.add_errback(lambda _error: self._delivered(partition, value, None))

    def serve(self) -> None:
        time.sleep(0.005)

    def close(self, timeout_seconds: float) -> None:
        self._producer.close(timeout_seconds)


class Writer:
    """A client's thread. `keys`: how many different keys its records have, 0 for none."""

    def __init__(self, ledger: Ledger, make_client: Callable[[Delivered], Client], seed: int, *, keys: int = 0) -> None:
        self.ledger = ledger
        self._make_client = make_client
        self._chance = random.Random(seed)
        self._keys = keys
        self._writing = threading.Event()
        self._resting = threading.Event()
        self._ended = False
        self._close_timeout_seconds = float(GIVE_UP_SECONDS)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer-{ledger.topic}", daemon=True)

    def start(self) -> None:
        """Begin, at rest."""
        self._thread.start()

    def resume(self) -> None:
        """Write from now on."""
        self._resting.clear()
        self._writing.set()

    def rest(self, timeout_seconds: float = GIVE_UP_SECONDS) -> None:
        """Stop writing and wait until the fate of every record is known."""
        self._writing.clear()
        assert self._resting.wait(timeout_seconds), f"{self.ledger.topic}: still writing"
        deadline = time.monotonic() + timeout_seconds
        while self.ledger.outstanding:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, f"{self.ledger.topic}: {self.ledger.outstanding} records are undecided"
            time.sleep(0.005)

    def close(self, timeout_seconds: float = GIVE_UP_SECONDS) -> None:
        """End the thread and its client. Idempotent."""
        if self._ended:
            return
        self._close_timeout_seconds = timeout_seconds
        self._ended = True
        self._writing.set()
        if self._thread.ident is not None:
            self._thread.join(2 * GIVE_UP_SECONDS)
            assert not self._thread.is_alive(), f"{self._thread.name} does not end"

    def _run(self) -> None:
        try:
            client = self._make_client(self._delivered)
            while not self._ended:
                if self._writing.is_set():
                    self._write_some(client)
                    time.sleep(PAUSE_SECONDS)
                else:
                    self._resting.set()
                client.serve()
            client.close(self._close_timeout_seconds)
        except BaseException as error:
            self.failure = error
            self._resting.set()
            raise

    def _write_some(self, client: Client) -> None:
        if self.ledger.outstanding > MAX_OUTSTANDING:
            return
        partition = self._chance.randrange(len(self.ledger.partitions))
        book = self.ledger.partitions[partition]
        for _ in range(self._chance.randint(1, 20)):
            number = len(book.sent)
            value = b"%s/%d/%d " % (self.ledger.topic.encode(), partition, number)
            value += self._chance.randbytes(self._chance.choice((1, 20, 300)))
            key = b"key-%d" % self._chance.randrange(self._keys) if self._keys else None
            if key is not None:
                value = key + b" " + value
                book.last_of_key[key] = value
            book.sent.append(value)
            client.send(partition, key, value)

    def _delivered(self, partition: int, value: bytes, offset: int | None) -> None:
        book = self.ledger.partitions[partition]
        if offset is None:
            book.failed.add(value)
        else:
            book.acknowledged[value] = offset
