"""Transactional producers of other libraries are told at once that this broker has no transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server

PATIENCE_SECONDS = 20
"""A client that retried would be at it for as long."""

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka has transactions")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = make_server(MODES[0], tmp_path_factory.mktemp("transactional"))
    with server.running():
        yield server


def confluent_producer(bootstrap_servers: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "t"})
    with pytest.raises(confluent_kafka.KafkaException, match="does not support transactions") as failure:
        producer.init_transactions(PATIENCE_SECONDS)
    error = failure.value.args[0]
    assert error.code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def kafka_python_producer(bootstrap_servers: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id="t", max_block_ms=PATIENCE_SECONDS * 1000
    )
    with pytest.raises(kafka.errors.TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=0)


def aiokafka_producer(bootstrap_servers: str) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="t")
        with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
            await asyncio.wait_for(producer.start(), PATIENCE_SECONDS)
        await producer.stop()

    asyncio.run(start())


@pytest.mark.parametrize("init_transactions", [confluent_producer, kafka_python_producer, aiokafka_producer])
def test_it_is_told_at_once(server: Server, init_transactions: Callable[[str], None]) -> None:
    began = time.monotonic()
    init_transactions(f"{server.host}:{server.port}")
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
