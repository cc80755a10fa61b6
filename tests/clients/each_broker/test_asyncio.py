"""The asyncio clients: a transaction that reads, writes and commits offsets, and one that is aborted."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.aio import Consumer, Producer
from barnabas.clients.consumer import TopicPartition
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer as CoreProducer
from tests.clients.each_broker.conftest import create_topic
from tests.clients.each_broker.each_broker import PATIENCE_SECONDS, EachBroker


async def initialized(producer: Producer) -> None:
    """Wait until the broker has its transaction coordinator, which it makes with the first request."""
    while True:
        try:
            return await producer.init_transactions()
        except ClientTimeout:
            continue


async def copy(broker: EachBroker, source: str, target: str) -> list[bytes | None]:
    """Copy five records with their offsets, fail to copy them again, and return what is committed."""
    partition = TopicPartition(source, 0)
    async with (
        Producer(broker.bootstrap_servers, transactional_id=source) as producer,
        Consumer(
            broker.bootstrap_servers, group_id=source, enable_auto_commit=False, auto_offset_reset="earliest"
        ) as consumer,
        Consumer(broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest") as reader,
    ):
        await initialized(producer)
        await consumer.subscribe([source])
        copied = 0
        while copied < 5:
            async with producer.transaction():
                for record in await consumer.getmany(timeout_ms=1000, max_records=2):
                    await producer.send(target, record.value)
                    copied += 1
                positions = {each: await consumer.position(each) for each in await consumer.assignment()}
                await producer.send_offsets_to_transaction(positions, await consumer.group_metadata())
        await producer.begin_transaction()
        await producer.send_and_wait(target, b"aborted")
        await producer.send_offsets_to_transaction({partition: 1}, await consumer.group_metadata())
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(target, b"last")
        committed = (await consumer.committed([partition]))[partition]
        assert committed is not None
        assert committed.offset == 5
        await reader.assign([TopicPartition(target, 0)])
        return [(await reader.getone()).value for _ in range(6)]


@pytest.mark.timeout(120)
def test_transactions(broker: EachBroker, one_partition: str, admin: Admin, name: str) -> None:
    target = create_topic(admin, f"{name}-copies", 1)
    with CoreProducer(broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(one_partition, b"%d" % number)
    values = asyncio.run(asyncio.wait_for(copy(broker, one_partition, target), 3 * PATIENCE_SECONDS))
    assert values == [b"0", b"1", b"2", b"3", b"4", b"last"]
