"""Network and request handler threads come and go under load: idempotent producers lose nothing and repeat nothing,
others lose nothing that was acknowledged. No time is asserted: producers go on until the last change is done.
"""

from __future__ import annotations

import itertools
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from barnabas.records.record_batch import batches
from tests.support.broker_log import wait_for_log_line
from tests.support.listener_servers import ListenerServer
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, MODES
from tests.support.settings_client import SettingsClient

SECONDS = 60
CHANGES = (
    {"num_network_threads": "6"},
    {"num_io_threads": "16"},
    {"num_network_threads": "3"},
    {"num_io_threads": "8"},
    {"num_network_threads": "6", "num_io_threads": "16"},
    {"num_network_threads": "3", "num_io_threads": "8"},
)
STARTED_AFTER = {0: "first", 4: "second"}
"""Change -> the round of producers that is started then: their connections go to new network threads, too."""
SENDS_BETWEEN_CHANGES = 100
"""Of every producer, so that each change finds them at work."""
REMOVED = re.compile(r"Removing \S+, which has (\d+) connections")
PAUSE_SECONDS = 0.002
"""Between sends, so that a slow machine is not busy with the clients alone."""
BACKOFF_MS = 20


class Load(ABC):
    """One producer on a thread of its own, with a topic of its own: the numbers from 0 on, as text."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: list[bytes] = []
        self.failed: list[bytes] = []
        self.errors: list[BaseException] = []
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=topic)

    def start(self) -> None:
        self._thread.start()

    def await_sends(self, count: int) -> None:
        """Wait until so many more have been sent."""
        with self._progress:
            wanted = self.sent + count
            assert self._progress.wait_for(lambda: self.sent >= wanted or self.errors, SECONDS)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * SECONDS)
        assert not self._thread.is_alive()
        assert self.errors == []

    def _run(self) -> None:
        try:
            for number in itertools.count():
                if self._stopping.wait(PAUSE_SECONDS):
                    break
                self.send(b"%d" % number)
                with self._progress:
                    self.sent += 1
                    self._progress.notify_all()
            self.flush()
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            with self._progress:
                self.errors.append(error)
                self._progress.notify_all()

    @abstractmethod
    def send(self, value: bytes) -> None:
        """Without waiting for the answer, unless too many are on their way."""

    @abstractmethod
    def flush(self) -> None:
        """Wait for all answers."""


class Confluent(Load):
    """confluent-kafka."""

    def __init__(self, bootstrap_servers: str, topic: str, **settings: Any) -> None:
        super().__init__(topic)
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "reconnect.backoff.ms": BACKOFF_MS,
                "reconnect.backoff.max.ms": BACKOFF_MS,
                "retry.backoff.ms": BACKOFF_MS,
                **settings,
            }
        )

    def send(self, value: bytes) -> None:
        """See Load."""
        while len(self._producer) > 1000:
            self._producer.poll(0.01)
        self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered(value))
        self._producer.poll(0)

    def flush(self) -> None:
        """See Load."""
        assert self._producer.flush(SECONDS) == 0

    def _delivered(self, value: bytes) -> Callable[[Any, Any], None]:
        return lambda error, _message: (self.acknowledged if error is None else self.failed).append(value)


class KafkaPython(Load):
    """kafka-python."""

    def __init__(self, bootstrap_servers: str, topic: str, **settings: Any) -> None:
        super().__init__(topic)
        self._futures: list[tuple[bytes, Any]] = []
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            linger_ms=1,
            batch_size=1000,
            reconnect_backoff_ms=BACKOFF_MS,
            reconnect_backoff_max_ms=BACKOFF_MS,
            retry_backoff_ms=BACKOFF_MS,
            **settings,
        )

    def send(self, value: bytes) -> None:
        """See Load."""
        self._futures.append((value, self._producer.send(self.topic, value, partition=0)))

    def flush(self) -> None:
        """See Load."""
        self._producer.flush(SECONDS)
        for value, future in self._futures:
            try:
                future.get(SECONDS)
            except KafkaError:
                self.failed.append(value)
            else:
                self.acknowledged.append(value)
        self._producer.close(SECONDS)


@pytest.fixture(params=MODES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ListenerServer]:
    made = ListenerServer(request.param, tmp_path, {}, num_network_threads="3", num_io_threads="8")
    with made.running():
        yield made


def stored_values(server: ListenerServer, topic: str) -> list[bytes]:
    """What a topic has, in order."""
    values: list[bytes] = []
    with RawClient(server.server) as client:
        end = client.end_offset(topic)
        while len(values) < end:
            for batch in batches(record_bytes(client.fetch(topic, len(values)))):
                values += [record.value or b"" for record in batch.records() if record.offset >= len(values)]
    return values


def make_loads(server: ListenerServer, label: str) -> tuple[list[Load], list[Load]]:
    """Producers with topics of their own: idempotent ones, and others."""
    address = server.server.bootstrap_servers
    idempotent: list[Load] = [
        Confluent(address, f"{label}-confluent-idempotent", **{"enable.idempotence": True}),
        KafkaPython(address, f"{label}-kafka-python-idempotent", enable_idempotence=True),
    ]
    others: list[Load] = [
        Confluent(address, f"{label}-confluent", acks="all", **{"message.send.max.retries": 0}),
        Confluent(address, f"{label}-confluent-acks-1", acks="1"),
        KafkaPython(address, f"{label}-kafka-python", enable_idempotence=False, acks="all", retries=0),
    ]
    with server.connect("PLAINTEXT") as client:
        for load in idempotent + others:
            client.create_topic(load.topic)
    return idempotent, others


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_threads_come_and_go_under_load(server: ListenerServer) -> None:
    settings = SettingsClient(server.server)
    idempotent, others = make_loads(server, "before")
    for load in idempotent + others:
        load.start()
    for number, change in enumerate(CHANGES):
        for load in idempotent + others:
            load.await_sends(SENDS_BETWEEN_CHANGES)
        settings.set("0", **change)
        if number in STARTED_AFTER:
            more_idempotent, more_others = make_loads(server, STARTED_AFTER[number])
            for load in more_idempotent + more_others:
                load.start()
            idempotent += more_idempotent
            others += more_others
    for load in idempotent + others:
        load.await_sends(SENDS_BETWEEN_CHANGES)
    for load in idempotent + others:
        load.stop()
    for load in idempotent:
        assert load.failed == []
        assert stored_values(server, load.topic) == [b"%d" % number for number in range(load.sent)]
    for load in others:
        assert len(load.acknowledged) > SENDS_BETWEEN_CHANGES
        assert set(load.acknowledged) <= set(stored_values(server, load.topic))
    if not AGAINST_KAFKA:
        wait_for_log_line(server.server, ", which has ", 6)
        removed = [int(count) for count in REMOVED.findall(server.server.log_text())]
        assert len(removed) == 6
        assert sum(removed) > 0, "no producer was connected to a thread that went"
