"""Our asyncio clients against a real broker, with aiokafka as the other side."""

from __future__ import annotations

import asyncio
import threading

import pytest

from barnabas.clients import aio
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.aio import Consumer, Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.clients.aiokafka_driver import AiokafkaDriver
from tests.clients.client_driver import SentRecord
from tests.support.server_fixtures import Server

SECONDS = 120


def _create(server: Server, topic: str, partitions: int) -> None:
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])


def test_records_of_many_tasks_are_read_by_aiokafka(server: Server, topic: str) -> None:
    _create(server, topic, 4)

    async def send_some(producer: Producer, task: int) -> None:
        futures = [await producer.send(topic, b"%d-%d" % (task, number), partition=task % 4) for number in range(500)]
        offsets = [each.offset for each in await asyncio.wait_for(asyncio.gather(*futures), SECONDS)]
        assert offsets == sorted(offsets)

    async def main() -> None:
        # The buffer holds a part of the records only, so that tasks wait for memory.
        async with Producer(server.bootstrap_servers, batch_size=1_000, buffer_memory=8_000, linger_ms=2) as producer:
            await asyncio.gather(*(send_some(producer, task) for task in range(8)))

    before = set(threading.enumerate())
    asyncio.run(main())
    assert set(threading.enumerate()) <= before
    read = AiokafkaDriver().read(server.bootstrap_servers, topic, dict.fromkeys(range(4), 0), 4_000)
    assert {record.value for record in read} == {
        b"%d-%d" % (task, number) for task in range(8) for number in range(500)
    }


def test_groups_of_both_protocols_read_what_aiokafka_wrote(server: Server, topic: str) -> None:
    _create(server, topic, 4)
    AiokafkaDriver().produce(
        server.bootstrap_servers,
        topic,
        "none",
        [SentRecord(number % 4, b"k", b"%d" % number, ()) for number in range(1_000)],
    )

    async def member(group_id: str, protocol: str, seen: list[bytes], is_all: asyncio.Event) -> None:
        async with Consumer(
            server.bootstrap_servers,
            group_id=group_id,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            await consumer.subscribe([topic])
            while not is_all.is_set():
                seen += [record.value for record in await consumer.getmany(200)]
                await consumer.commit()
                if len(set(seen)) == 1_000:
                    is_all.set()

    async def read(protocol: str) -> None:
        seen: list[bytes] = []
        is_all = asyncio.Event()
        group_id = f"{topic}-{protocol}"
        await asyncio.wait_for(asyncio.gather(*(member(group_id, protocol, seen, is_all) for _ in range(2))), SECONDS)
        async with Consumer(server.bootstrap_servers, group_id=group_id) as consumer:
            partitions = [TopicPartition(topic, partition) for partition in range(4)]
            committed = await consumer.committed(partitions)
            assert [each and each.offset for each in committed.values()] == [250] * 4

    async def main() -> None:
        await asyncio.gather(read("classic"), read("consumer"))

    asyncio.run(main())


def test_cancelled_reads_lose_nothing_and_records_come_one_by_one(server: Server, topic: str) -> None:
    _create(server, topic, 1)

    async def main() -> None:
        async with (
            Producer(server.bootstrap_servers) as producer,
            Consumer(server.bootstrap_servers, auto_offset_reset="earliest", max_poll_records=10) as consumer,
        ):
            await consumer.assign([TopicPartition(topic, 0)])
            seen: list[bytes] = []
            for number in range(200):
                # Before the record is there, while it comes, and after that.
                reading = asyncio.create_task(consumer.getone())
                await producer.send_and_wait(topic, b"%d" % number)
                if number % 3:
                    reading.cancel()
                try:
                    seen.append((await asyncio.wait_for(reading, SECONDS)).value)
                except asyncio.CancelledError:
                    continue
            while len(seen) < 200:
                seen.append((await asyncio.wait_for(consumer.getone(), SECONDS)).value)
            assert seen == [b"%d" % number for number in range(200)]

    asyncio.run(main())


def test_admin_calls_side_by_side(server: Server, topic: str) -> None:
    async def main() -> None:
        async with aio.Admin(server.bootstrap_servers) as admin:
            created = await admin.create_topics([NewTopic(topic, 3, 1, {"retention.ms": "12345"})])
            assert created[topic].num_partitions == 3
            described, configs = await asyncio.gather(
                admin.describe_topics([topic]), admin.describe_topic_configs(topic)
            )
            assert len(described[topic].partitions) == 3
            assert configs["retention.ms"].value == "12345"
            with pytest.raises(ApiError) as raised:
                await admin.create_topics([NewTopic(topic, 3, 1)])
            assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
            await admin.delete_topics([topic])

    asyncio.run(main())
