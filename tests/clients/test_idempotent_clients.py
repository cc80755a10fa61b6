"""Idempotent producers of other libraries over connections that break: every record once, in order, over a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from barnabas.records.record_batch import batches
from tests.support.lossy_relay import LossyRelay
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server
from tests.support.stored_batches import stored_batches

RECORDS = 3000
TOPIC = "idempotent"
SECONDS = 60

pytestmark = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"
)


class Confluent:
    """confluent-kafka."""

    name = "confluent-kafka"

    def __init__(self, bootstrap_servers: str) -> None:
        self._errors: list[KafkaError] = []
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 10,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 5,
            }
        )

    def send(self, value: bytes) -> None:
        self._producer.produce(TOPIC, value, partition=0, on_delivery=self._note)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(SECONDS) == 0
        assert not self._errors

    def close(self) -> None:
        self._producer.flush(1)

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._errors.append(error)


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def __init__(self, bootstrap_servers: str) -> None:
        self._futures: list[object] = []
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            enable_idempotence=True,
            linger_ms=1,
            batch_size=500,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=50,
            retry_backoff_ms=5,
        )

    def send(self, value: bytes) -> None:
        self._futures.append(self._producer.send(TOPIC, value, partition=0))

    def flush(self) -> None:
        self._producer.flush(SECONDS)
        for future in self._futures:
            future.get(SECONDS)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._producer.close(1)


@pytest.fixture
def relay() -> Iterator[LossyRelay]:
    made = LossyRelay(loss=0.1, seed=1)
    yield made
    made.close()


@pytest.mark.parametrize("client_class", [Confluent, KafkaPython], ids=lambda client: client.name)
def test_every_record_once_and_in_order(
    tmp_path: Path, relay: LossyRelay, client_class: type[Confluent | KafkaPython]
) -> None:
    server = make_server(
        MODES[0], tmp_path, advertised_listeners=f"PLAINTEXT://{relay.bootstrap_servers}", log_segment_bytes="20000"
    )
    try:
        server.start()
        relay.relay_to(server.port)
        with RawClient(server) as raw:
            raw.create_topic(TOPIC)
        producer = client_class(relay.bootstrap_servers)
        try:
            _produce(server, relay, producer)
        finally:
            producer.close()
        assert relay.cuts > 3
        assert _values(server) == [b"%d" % number for number in range(RECORDS)]
        stored = list(stored_batches(server.data_dir, TOPIC, 0))
        assert all(batch.producer_id >= 0 for batch in stored)
        assert len({batch.producer_id for batch in stored}) == 1
        assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]
    finally:
        server.close()


def _produce(server: Server, relay: LossyRelay, producer: Confluent | KafkaPython) -> None:
    """All records; answers get lost, and in the middle the broker is killed."""
    producer.send(b"0")
    producer.flush()
    relay.is_lossy = True
    for number in range(1, RECORDS):
        producer.send(b"%d" % number)
        if number == RECORDS // 2:
            producer.flush()
        if number == RECORDS * 3 // 4:
            server.kill()
            server.start()
            relay.relay_to(server.port)
    producer.flush()
    relay.is_lossy = False


def _values(server: Server) -> list[bytes | None]:
    found: list[bytes | None] = []
    with RawClient(server) as raw:
        while len(found) < raw.end_offset(TOPIC):
            fetched = raw.fetch(TOPIC, len(found))
            for batch in batches(record_bytes(fetched)):
                found += [record.value for record in batch.records() if record.offset >= len(found)]
    return found
