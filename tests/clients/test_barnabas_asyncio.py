"""Our asyncio clients against a real broker, with aiokafka as the other side."""

from __future__ import annotations

import asyncio
import threading

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.aio import Producer
from tests.clients.aiokafka_driver import AiokafkaDriver
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
