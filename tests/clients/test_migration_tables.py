"""Every line of the migration tables of docs/clients.md runs: their call with their library, ours with ours.

One broker and one topic, `t`. A line finds the clients of its library as `producer`, `consumer` (which has read
`record`, or `message`, from the partition `tp`) and `admin`. What a line changes is made anew for the next one.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator
from types import CodeType
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
from confluent_kafka.cimpl import NewTopic as ConfluentTopic

from barnabas.clients import aio
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from barnabas.clients.producer import Producer
from barnabas.testing import broker
from tests.support.documented_code import ROOT

Names = dict[str, Any]
Make = Callable[[str, str], Awaitable[Names]]

SECONDS = 100
RECORDS = 400
_numbers = itertools.count()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with broker(num_partitions=2) as running:
        with Producer(running.bootstrap_servers) as producer:
            for _ in range(RECORDS):
                producer.send("t", b"value", key=b"key", partition=0)
        yield running.bootstrap_servers


def rows(title: str) -> list[list[str]]:
    """The cells of each line of a table."""
    section = (ROOT / "docs" / "clients.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]


def statements(cell: str, servers: str, new_topic: str) -> Iterator[tuple[str, CodeType]]:
    """The calls of a cell, as text and as code that may await, for this broker."""
    for text in re.findall(r"`([^`]+)`", cell):
        # A loop over a consumer never ends by itself.
        code = re.sub(r"^((?:async )?for .*): \.\.\.$", r"\1: break", text.replace('"b:9092"', repr(servers)))
        if "create_topics" in code:
            code = code.replace('"t"', repr(new_topic))
        mode = "exec" if code.endswith(("...", "break")) else "eval"
        yield text, compile(code, text, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def run(cell: str, servers: str, names: Names) -> None:
    """Run the calls of a cell, and close the clients that it makes. Fails with the text of the one that raises."""
    for text, code in statements(cell, servers, f"new-{next(_numbers)}"):
        try:
            result = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                result = await result
        except Exception as error:
            raise AssertionError(f"`{text}` raised {error!r}") from error
        if hasattr(result, "close"):
            result.close()


async def run_rows(title: str, servers: str, theirs: Make, ours: Make) -> None:
    found = rows(title)
    assert len(found) > 15
    for row in found:
        for cell, make in ((row[0], theirs), (row[1], ours)):
            if not re.search(r"`[^`]+`", cell):
                continue
            names = await make(cell, servers)
            try:
                await run(cell, servers, names)
            finally:
                for close in reversed(names["closes"]):
                    closed = close()
                    if inspect.isawaitable(closed):
                        await closed


def check(title: str, servers: str, theirs: Make, ours: Make) -> None:
    asyncio.run(asyncio.wait_for(run_rows(title, servers, theirs, ours), SECONDS))


def group() -> str:
    return f"g{next(_numbers)}"


def is_about(cell: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", cell) is not None


# -- ours


async def our_clients(cell: str, servers: str) -> Names:
    producer, admin = Producer(servers), Admin(servers)
    consumer = Consumer(servers, group_id=group(), auto_offset_reset="earliest", max_poll_records=10)
    tp = TopicPartition("t", 0)
    record = None
    if not is_about(cell, "subscribe"):
        consumer.assign([tp])
        record = consumer.poll(10_000)[0]
    return {
        "Consumer": Consumer,
        "NewTopic": NewTopic,
        "OffsetAndMetadata": OffsetAndMetadata,
        "Producer": Producer,
        "TopicPartition": TopicPartition,
        "admin": admin,
        "both": lambda metadata, error: None,
        "closes": [producer.close, consumer.close, admin.close],
        "consumer": consumer,
        "f": lambda *_: None,
        "listener": RebalanceListener(),
        "offset": 5,
        "producer": producer,
        "record": record,
        "tp": tp,
    }


async def our_asyncio_clients(cell: str, servers: str) -> Names:
    is_transactional = "transaction" in cell
    producer = aio.Producer(servers, transactional_id=group() if is_transactional else None)
    consumer = aio.Consumer(servers, group_id=group(), auto_offset_reset="earliest")
    admin = aio.Admin(servers)
    if "producer.start" not in cell:
        await producer.start()
    await consumer.start()
    await admin.start()
    if is_transactional:
        await producer.init_transactions()
    if "send_offsets" in cell:
        await producer.begin_transaction()
    tp = TopicPartition("t", 0)
    record = None
    if not is_about(cell, "subscribe"):
        await consumer.assign([tp])
        record = await consumer.getone()
    return {
        "Consumer": aio.Consumer,
        "NewTopic": NewTopic,
        "OffsetAndMetadata": OffsetAndMetadata,
        "Producer": aio.Producer,
        "admin": admin,
        "closes": [producer.stop, consumer.stop, admin.stop],
        "consumer": consumer,
        "producer": producer,
        "record": record,
        "tp": tp,
    }


# -- theirs


async def kafka_python_clients(cell: str, servers: str) -> Names:
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, group_id=group(), auto_offset_reset="earliest", max_poll_records=10
    )
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    tp = kafka.TopicPartition("t", 0)
    record = None
    if not is_about(cell, "subscribe"):
        consumer.assign([tp])
        record = consumer.poll(timeout_ms=10_000)[tp][0]
    return {
        "KafkaConsumer": kafka.KafkaConsumer,
        "KafkaProducer": kafka.KafkaProducer,
        "admin": admin,
        "bad": lambda _: None,
        "closes": [producer.close, consumer.close, admin.close],
        "consumer": consumer,
        "f": lambda *_: None,
        "ok": lambda _: None,
        "producer": producer,
        "record": record,
        "tp": tp,
    }


async def confluent_kafka_clients(cell: str, servers: str) -> Names:
    settings: Names = {"bootstrap.servers": servers}
    producer = confluent_kafka.Producer(settings)
    consumer = confluent_kafka.Consumer(
        settings | {"group.id": group(), "auto.offset.reset": "earliest", "enable.auto.offset.store": False}
    )
    admin = confluent_kafka.admin.AdminClient(settings)
    message = None
    if not is_about(cell, "subscribe"):
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        message = consumer.poll(10)
        assert message is not None
        consumer.store_offsets(message=message)
    return {
        "Consumer": confluent_kafka.Consumer,
        "NewTopic": ConfluentTopic,
        "Producer": confluent_kafka.Producer,
        "TopicPartition": confluent_kafka.TopicPartition,
        "admin": admin,
        "closes": [consumer.close],
        "consumer": consumer,
        "f": lambda *_: None,
        "m": message,
        "message": message,
        "producer": producer,
        "tp": confluent_kafka.TopicPartition("t", 0),
    }


async def aiokafka_clients(cell: str, servers: str) -> Names:
    is_transactional = "transaction" in cell
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers, transactional_id=group() if is_transactional else None
    )
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, group_id=group(), auto_offset_reset="earliest")
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
    if "producer.start" not in cell:
        await producer.start()
    await consumer.start()
    await admin.start()
    if "send_offsets" in cell:
        await producer.begin_transaction()
    tp = aiokafka.TopicPartition("t", 0)
    record = None
    if not is_about(cell, "subscribe"):
        consumer.assign([tp])
        record = await consumer.getone()
    return {
        "AIOKafkaConsumer": aiokafka.AIOKafkaConsumer,
        "AIOKafkaProducer": aiokafka.AIOKafkaProducer,
        "NewTopic": aiokafka.admin.NewTopic,
        "admin": admin,
        "closes": [producer.stop, consumer.stop, admin.close],
        "consumer": consumer,
        "producer": producer,
        "record": record,
        "tp": tp,
    }


def test_kafka_pythons_lines(servers: str) -> None:
    check("Coming from kafka-python", servers, kafka_python_clients, our_clients)


def test_confluent_kafkas_lines(servers: str) -> None:
    check("Coming from confluent-kafka", servers, confluent_kafka_clients, our_clients)


def test_aiokafkas_lines(servers: str) -> None:
    check("Coming from aiokafka", servers, aiokafka_clients, our_asyncio_clients)
