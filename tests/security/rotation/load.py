"""Clients of three libraries that write and read over SASL_SSL: how each is made, and threads that read.

Used by the campaign, on its thread. Each writer and each reader has a thread of its own; the campaign reads what they
have noted (lists and dictionaries that only grow). The writers are those of the crash campaign (tests/chaos):
idempotent, acks=all, the only ones of their topics, so that the order of a partition's records is known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import confluent_kafka
import kafka

from barnabas.clients.authentication_errors import AuthenticationError
from barnabas.clients.consumer import Consumer
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer
from tests.chaos.ledger import Ledger
from tests.chaos.writers import Client, ConfluentClient, Delivered, KafkaPythonClient, Writer
from tests.security.rotation.place import SECONDS, SHA_512

PARTITIONS = 2
POLL_MS = 200
METADATA_MS = 1_000
PATIENCE_MS = 120_000
"""A client that gives a request up closes its connection: not because of a busy machine."""


class Login(NamedTuple):
    """How a client connects."""

    servers: str
    trust_pem: str
    user: str
    password: str
    is_token: bool = False
    """Whether the user is the id of a delegation token, the password its HMAC."""
    patience_ms: int = PATIENCE_MS
    """How long a writer tries to deliver a record; half of it for one request."""


class Reader(Protocol):
    """A consumer of some library, a member of a group."""

    def poll(self) -> list[bytes]:
        """Return the values that have come."""

    def close(self) -> None:
        """Leave the group."""


# -- ours


def ours(login: Login) -> dict[str, Any]:
    """The settings of our clients."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": login.trust_pem,
        "sasl_mechanism": SHA_512,
        "sasl_username": login.user,
        "sasl_password": login.password,
        "sasl_token_auth": login.is_token,
        "request_timeout_ms": login.patience_ms // 2,
    }


class BarnabasClient:
    """Our producer."""

    def __init__(self, login: Login, topic: str, delivered: Delivered) -> None:
        self._topic = topic
        self._delivered = delivered
        times: dict[str, Any] = {"linger_ms": 2, "delivery_timeout_ms": login.patience_ms}
        self._producer = Producer(login.servers, acks="all", **times, **ours(login))

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        def on_delivery(metadata: Any, error: BaseException | None) -> None:
            self._delivered(partition, value, None if error is not None else metadata.offset)

        try:
            self._producer.send(self._topic, value, key, partition=partition, on_delivery=on_delivery)
        except (AuthenticationError, ClientTimeout):  # nothing is known of the topic, for want of a login
            self._delivered(partition, value, None)

    def serve(self) -> None:
        time.sleep(0.005)

    def close(self, timeout_seconds: float) -> None:
        self._producer.close(timeout_seconds * 1000)


class _BarnabasReader:
    def __init__(self, login: Login, topic: str) -> None:
        self._consumer = Consumer(login.servers, group_id=topic, auto_offset_reset="earliest", **ours(login))
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        return [record.value for record in self._consumer.poll(POLL_MS)]

    def close(self) -> None:
        self._consumer.close()


# -- librdkafka


def _confluent(login: Login) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": login.trust_pem,
        "sasl.mechanism": SHA_512,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "socket.timeout.ms": login.patience_ms // 2,
    }


class RenewableConfluentClient(ConfluentClient):
    """confluent-kafka's producer, which takes a new password while it runs."""

    def __init__(self, login: Login, topic: str, delivered: Delivered) -> None:
        security = _confluent(login) | {"topic.metadata.refresh.interval.ms": METADATA_MS}
        super().__init__(
            login.servers,
            topic,
            delivered,
            idempotent=True,
            give_up_seconds=login.patience_ms // 1000,
            security=security,
        )

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        try:
            super().send(partition, key, value)
        except confluent_kafka.KafkaException as failed:
            # librdkafka rejects what follows a rejected record, until it asks for the topic's metadata again.
            if failed.args[0].code() != confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            self._delivered(partition, value, None)

    def set_password(self, user: str, password: str) -> None:
        """Log in by this password from now on. Any thread may call it."""
        self._producer.set_sasl_credentials(user, password)


class _ConfluentReader:
    def __init__(self, login: Login, topic: str) -> None:
        group = {"group.id": topic, "auto.offset.reset": "earliest", "bootstrap.servers": login.servers}
        self._consumer = confluent_kafka.Consumer({**group, **_confluent(login), "log_level": 0})
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(500, POLL_MS / 1000)
        for message in messages:
            if (error := message.error()) is not None:
                raise confluent_kafka.KafkaException(error)
        return [message.value() or b"" for message in messages]

    def close(self) -> None:
        self._consumer.close()


# -- kafka-python


def _kafka_python(login: Login) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": login.trust_pem,
        "sasl_mechanism": SHA_512,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
        "request_timeout_ms": login.patience_ms // 2,
    }


def _kafka_python_client(login: Login, topic: str, delivered: Delivered) -> Client:
    give_up_seconds = login.patience_ms // 1000
    return KafkaPythonClient(login.servers, topic, delivered, give_up_seconds, security=_kafka_python(login))


class _KafkaPythonReader:
    def __init__(self, login: Login, topic: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=login.servers, group_id=topic, auto_offset_reset="earliest", **_kafka_python(login)
        )
        # kafka-python may lose a join that outlives the poll() it began in: the first poll ends with a record.
        self._poll_ms = SECONDS * 1000

    def poll(self) -> list[bytes]:
        found = [record.value for records in self._consumer.poll(self._poll_ms).values() for record in records]
        self._poll_ms = POLL_MS
        return found

    def close(self) -> None:
        self._consumer.close()


class Library(NamedTuple):
    """A client library: its writer and its reader."""

    make_client: Callable[[Login, str, Delivered], Client]
    make_reader: Callable[[Login, str], Reader]


LIBRARIES: Mapping[str, Library] = {
    "barnabas": Library(BarnabasClient, _BarnabasReader),
    "confluent-kafka": Library(RenewableConfluentClient, _ConfluentReader),
    "kafka-python": Library(_kafka_python_client, _KafkaPythonReader),
}


# -- threads


class LoadWriter:
    """A writer that notes the longest time between two acknowledgements. `client`: the library's, while it runs."""

    def __init__(self, library: Library, login: Login, ledger: Ledger, seed: int) -> None:
        self.ledger = ledger
        self.longest_gap_seconds = 0.0
        self.client: Client | None = None
        self._library = library
        self._login = login
        self._last = 0.0
        self._writer = Writer(ledger, self._make_client, seed)

    def start(self) -> None:
        """Write from now on."""
        self._writer.start()
        self._writer.resume()

    def stop(self) -> None:
        """End, when the fate of every record is known."""
        self._writer.rest(SECONDS)
        self._writer.close()

    def abandon(self) -> None:
        """End after a failed test, whatever becomes of its records."""
        self._writer.close(timeout_seconds=0)

    @property
    def failures(self) -> int:
        """The number of records whose delivery has failed."""
        return sum(len(partition.failed) for partition in self.ledger.partitions)

    def check(self) -> None:
        """Fail if the thread has ended by an error."""
        assert self._writer.failure is None, f"{self.ledger.topic}: {self._writer.failure!r}"

    def _make_client(self, delivered: Delivered) -> Client:
        def note(partition: int, value: bytes, offset: int | None) -> None:
            if offset is not None:
                now = time.monotonic()
                if self._last:
                    self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
                self._last = now
            delivered(partition, value, offset)

        self.client = self._library.make_client(self._login, self.ledger.topic, note)
        return self.client


class LoadReader:
    """A reader's thread. values: what it has read, in order."""

    def __init__(self, library: Library, login: Login, topic: str) -> None:
        self.topic = topic
        self.values: list[bytes] = []
        self.failure: BaseException | None = None
        self._library = library
        self._login = login
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)

    def start(self) -> None:
        """Read from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, and end. Idempotent."""
        self._ended.set()
        self._thread.join(2 * SECONDS)
        assert not self._thread.is_alive(), f"{self._thread.name} does not end"

    def check(self) -> None:
        """Fail if a call of the library has failed."""
        assert self.failure is None, f"{self.topic}: {self.failure!r}"

    def _run(self) -> None:
        try:
            reader = self._library.make_reader(self._login, self.topic)
            try:
                while not self._ended.is_set():
                    self.values += reader.poll()
            finally:
                reader.close()
        except BaseException as error:
            self.failure = error
            raise
