"""The asyncio producer's transactions on our broker: both ends, offsets, fencing, cancellation, late answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.aio import Consumer, Producer
from barnabas.clients.consumer import Consumer as CoreConsumer
from barnabas.clients.consumer import TopicPartition
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import ProducerFenced, TransactionAborted
from barnabas.testing import BrokerProcess, Delay, First, broker
from tests.support.transaction_markers import wait_for_markers

SECONDS = 60


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(faults=True) as started:
        yield started


@pytest.fixture
def topic(running: BrokerProcess) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(running.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1)])
    return name


def transactional(running: BrokerProcess, transactional_id: str, **settings: Any) -> Producer:
    return Producer(running.bootstrap_servers, transactional_id=transactional_id, **settings)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), SECONDS))


def committed_values(running: BrokerProcess, topic: str) -> list[bytes | None]:
    """The records that a reader of committed ones sees, up to the end that it is told."""
    partition = TopicPartition(topic, 0)
    wait_for_markers(running.bootstrap_servers, [partition])
    with CoreConsumer(running.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        values: list[bytes | None] = []
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            values += [record.value for record in consumer.poll(500)]
    return values


def test_a_block_commits_and_an_exception_aborts(running: BrokerProcess, topic: str) -> None:
    async def fail(producer: Producer) -> asyncio.Future[Any]:
        future = await producer.send(topic, b"dropped")
        raise ZeroDivisionError(future)

    async def main() -> None:
        async with transactional(running, topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                futures = [await producer.send(topic, b"%d" % number) for number in range(3)]
            assert [future.result().offset for future in futures] == [0, 1, 2]
            with pytest.raises(ZeroDivisionError) as raised:
                async with producer.transaction():
                    await fail(producer)
            with pytest.raises(TransactionAborted):
                await raised.value.args[0]
            await producer.begin_transaction()
            await producer.send(topic, b"3")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"never")
            await producer.abort_transaction()

    run(main)
    assert committed_values(running, topic) == [b"0", b"1", b"2", b"3"]


def test_offsets_of_a_group_are_committed_with_the_records(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with Producer(running.bootstrap_servers) as feeder:
            for number in range(5):
                await feeder.send(topic, b"%d" % number)
        settings: Any = {"group_id": topic, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        copies = f"{topic}-copies"
        async with (
            transactional(running, topic) as producer,
            Consumer(running.bootstrap_servers, **settings) as consumer,
        ):
            await producer.init_transactions()
            await consumer.subscribe([topic])
            read = 0
            while read < 5:
                async with producer.transaction():
                    for record in await consumer.getmany(timeout_ms=1000, max_records=2):
                        await producer.send(copies, record.value)
                        read += 1
                    positions = {each: await consumer.position(each) for each in await consumer.assignment()}
                    await producer.send_offsets_to_transaction(positions, await consumer.group_metadata())
            found = await consumer.committed([TopicPartition(topic, 0)])
            (committed,) = found.values()
            assert committed is not None
            assert committed.offset == 5

    run(main)
    assert committed_values(running, f"{topic}-copies") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_cancelled_task_aborts_its_transaction(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic) as producer:
            await producer.init_transactions()
            is_stored = asyncio.Event()

            async def work() -> None:
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"cancelled")
                    is_stored.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await is_stored.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(topic, b"committed")

    run(main)
    assert committed_values(running, topic) == [b"committed"]


def test_a_commit_that_was_not_awaited_to_its_end_goes_on(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic, client_id="slow") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"once")
            with running.faults.add(Delay(1_000), api="EndTxn", client_id="slow", calls=First(1)) as fault:
                commit = asyncio.create_task(producer.commit_transaction())
                await asyncio.to_thread(fault.wait_for_hits, 1)
                commit.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await commit
                with pytest.raises(RuntimeError, match="commit_transaction"):
                    await producer.begin_transaction()
                await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(topic, b"twice")

    run(main)
    assert committed_values(running, topic) == [b"once", b"twice"]


def test_a_late_answer_times_out_and_can_be_awaited_again(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic, client_id="late", max_block_ms=500) as producer:
            with running.faults.add(Delay(1_500), api="InitProducerId", client_id="late", calls=First(1)):
                with pytest.raises(ClientTimeout, match="init_transactions was not answered within 500 ms"):
                    await producer.init_transactions()
                while True:
                    try:
                        await producer.init_transactions()
                    except ClientTimeout:
                        continue
                    break
            async with producer.transaction():
                await producer.send(topic, b"after")

    run(main)
    assert committed_values(running, topic) == [b"after"]


def test_a_second_producer_fences_the_first(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic) as first, transactional(running, topic) as second:
            await first.init_transactions()
            await first.begin_transaction()
            await first.send_and_wait(topic, b"fenced")
            await second.init_transactions()
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
            async with second.transaction():
                await second.send(topic, b"second")

    run(main)
    assert committed_values(running, topic) == [b"second"]


def test_a_producer_that_stops_aborts(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"open")

    run(main)
    assert committed_values(running, topic) == []


def test_calls_that_do_not_fit(running: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        async with transactional(running, topic) as producer:
            with pytest.raises(RuntimeError):
                await producer.begin_transaction()
            await producer.init_transactions()
            with pytest.raises(RuntimeError):
                await producer.send(topic, b"outside")
            with pytest.raises(RuntimeError):
                await producer.commit_transaction()
            async with producer.transaction():
                with pytest.raises(RuntimeError):
                    await producer.begin_transaction()
        async with Producer(running.bootstrap_servers) as plain:
            with pytest.raises(RuntimeError, match="Cannot use transaction without a transactional_id"):
                plain.transaction()

    run(main)
