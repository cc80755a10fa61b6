"""aiokafka's cases of producer and consumer (tests/test_producer.py, test_consumer.py), in the calls of `clients.aio`.

Each test has the name of its case. Without a counterpart:

| case | why |
|---|---|
| test_producer_api_version, `api_version` everywhere | versions are negotiated with each broker |
| test_producer_warn_unclosed, test_consumer_warn_unclosed | ours gives no ResourceWarning |
| cases that replace inner parts (send_timeout, leader_notfound, reenque, propagate) | tests/unit/clients/producer |
| test_producer_send_batch | ready-made batches belong to the synchronous `Producer.send_batch` |
| getone and getmany of chosen partitions | ours have no such argument: `pause` leaves partitions out |
| seek_to_committed | `seek(partition, (await committed([partition]))[partition])` |
| a group of None with `subscribe` | needs a group, as in Java; `assign` needs none |
| TLS and SASL | ours have neither |
"""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from barnabas.clients import aio
from barnabas.clients.consumer import ClientClosed, OffsetAndMetadata, TopicPartition
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.cases.records import PATIENCE_SECONDS, send_numbers


async def take(consumer: aio.Consumer, count: int) -> list[bytes]:
    """The values of the next records. Fails when they do not come."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [(await consumer.getone()).value for _ in range(count)]


def numbers(first: int, end: int) -> list[bytes]:
    """The values of `send_numbers`."""
    return [b"%d" % number for number in range(first, end)]


def test_producer_send(broker: str, topic: str) -> None:
    async def case() -> None:
        producer = aio.Producer(broker)
        await producer.start()
        assert len(await producer.partitions_for(topic)) == 4
        with pytest.raises(TypeError):
            await producer.send(topic, "hello, Kafka!", partition=0)
        first = await (await producer.send(topic, b"hello, Kafka!", partition=0))
        assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
        assert (await producer.send_and_wait(topic, b"second", partition=1)).partition == 1
        assert (await producer.send_and_wait(topic, b"value", key=b"KEY")).partition in range(4)
        await producer.stop()
        with pytest.raises(ClientClosed):
            await producer.send(topic, b"value")
        await producer.stop()

    asyncio.run(case())


def test_producer_context_manager(broker: str, topic: str) -> None:
    async def case() -> None:
        producer = aio.Producer(broker)

        async def fail() -> None:
            async with producer as entered:
                assert entered is producer
                await producer.send(topic, b"value", key=b"KEY")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        with pytest.raises(ClientClosed):
            await producer.send(topic, b"value")

    asyncio.run(case())


def test_producer_send_noack(broker: str, topic: str) -> None:
    async def case() -> list[int]:
        async with aio.Producer(broker, acks=0) as producer:
            futures = [await producer.send(topic, b"hello", partition=partition) for partition in (0, 1)]
            return [(await future).offset for future in futures]

    assert asyncio.run(case()) == [-1, -1], "aiokafka's results are None, Java's offsets are -1"


def test_producer_send_with_serializer(broker: str, topic: str) -> None:
    async def case() -> None:
        async with aio.Producer(
            broker,
            key_serializer=lambda _, key: key.upper().encode(),
            value_serializer=lambda _, value: json.dumps(value).encode(),
            max_request_size=1_000,
        ) as producer:
            value = {"strKey": 23523.443, "23": "STRval"}
            first = await producer.send_and_wait(topic, value, key="some key")
            second = await producer.send_and_wait(topic, "some str", key="some key")
            assert (second.partition, second.offset) == (first.partition, first.offset + 1)
            with pytest.raises(ApiError) as raised:
                await producer.send_and_wait(topic, "*VALUE" * 800, key="some key")
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(case())


def test_producer_send_with_compression(broker: str, topic: str) -> None:
    with pytest.raises(ValueError, match="my_custom"):
        aio.Producer(broker, compression_type="my_custom")


def test_producer_flush_test(broker: str, topic: str) -> None:
    async def case() -> None:
        async with aio.Producer(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            futures = [await producer.send(topic, value) for value in (b"text1", b"text2")]
            assert not any(future.done() for future in futures)
            await producer.flush()
            assert all(future.done() for future in futures)

    asyncio.run(case())


def test_producer_correct_time_returned(broker: str, topic: str) -> None:
    async def case() -> None:
        async with aio.Producer(broker) as producer:
            before_ms = time.time_ns() // 1_000_000
            place = await producer.send_and_wait(topic, b"text1", partition=0)
            assert before_ms <= place.timestamp_ms <= time.time_ns() // 1_000_000
            place = await producer.send_and_wait(topic, b"text1", partition=0, timestamp_ms=123_123_123)
            assert place.timestamp_ms == 123_123_123

    asyncio.run(case())


def test_producer_idempotence_configuration(broker: str) -> None:
    with pytest.raises(ValueError, match="acks"):
        aio.Producer(broker, acks=1, enable_idempotence=True)


def test_simple_consumer(broker: str, topic: str, name: str) -> None:
    place = TopicPartition(topic, 0)
    send_numbers(broker, topic, range(100), 0)
    send_numbers(broker, topic, range(100, 200), 1)

    async def case() -> None:
        async with aio.Consumer(broker, group_id=name, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            assert sorted(await take(consumer, 200)) == sorted(numbers(0, 200))
            assert place in await consumer.assignment()
            assert [each.partition for each in await consumer.partitions_for(topic)] == [0, 1, 2, 3]
            unknown = TopicPartition("unknown-topic", 2)
            assert await consumer.committed([unknown]) == {unknown: None}
            assert await consumer.end_offsets([place]) == {place: 100}
            await consumer.seek(place, 90)
            assert await take(consumer, 10) == numbers(90, 100)
            await consumer.stop()

    asyncio.run(case())


def test_consumer_context_manager(broker: str, topic: str) -> None:
    send_numbers(broker, topic, range(10))

    async def case() -> None:
        consumer = aio.Consumer(broker, auto_offset_reset="earliest")

        async def fail() -> None:
            values = []
            async with consumer:
                await consumer.assign([TopicPartition(topic, 0)])
                async for record in consumer:
                    values.append(record.value)
                    if values == numbers(0, 10):
                        raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await fail()
        with pytest.raises(ClientClosed):
            await consumer.getone()

    asyncio.run(case())


def test_none_group(broker: str, topic: str) -> None:
    send_numbers(broker, topic, range(100))

    async def case() -> None:
        async with aio.Consumer(broker, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            assert await take(consumer, 100) == numbers(0, 100)
            with pytest.raises(ValueError, match="group_id"):
                await consumer.commit()

    asyncio.run(case())


def test_large_messages_getone(broker: str, topic: str) -> None:
    values = [b"x" * 10, b"y" * 50_000, b"z" * 50]

    async def case() -> None:
        async with aio.Producer(broker) as producer:
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
        async with aio.Consumer(broker, auto_offset_reset="earliest", max_partition_fetch_bytes=4_000) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            assert await take(consumer, 3) == values

    asyncio.run(case())


def test_offset_behavior__resuming_behavior(broker: str, topic: str, name: str) -> None:
    send_numbers(broker, topic, range(100), 0)
    send_numbers(broker, topic, range(100, 200), 1)

    async def case() -> list[bytes]:
        settings = {"group_id": name, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
        async with aio.Consumer(broker, **settings) as second:  # type: ignore[arg-type]
            await second.subscribe([topic])
            async with aio.Consumer(broker, **settings) as first:  # type: ignore[arg-type]
                await first.subscribe([topic])
                found = await take(first, 10)
            # The first one has committed what it handed out, and has left: the second one goes on there.
            return found + await take(second, 190)

    assert sorted(asyncio.run(case())) == sorted(numbers(0, 200))


def test_subscribe_manual(broker: str, topic: str, name: str) -> None:
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    send_numbers(broker, topic, range(10), 0)
    send_numbers(broker, topic, range(10, 20), 1)

    async def case() -> None:
        async with aio.Consumer(broker, group_id=name, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            with pytest.raises(RuntimeError):
                await consumer.assign(places[:1])
            await consumer.unsubscribe()
            await consumer.assign(places[:1])
            assert await take(consumer, 10) == numbers(0, 10)
            await consumer.commit()
            assert await consumer.position(places[0]) == 10
            await consumer.unsubscribe()
            await consumer.assign(places[1:])
            assert await take(consumer, 10) == numbers(10, 20)

    asyncio.run(case())


def test_manual_subscribe_pattern(broker: str, topic: str, name: str) -> None:
    place = TopicPartition(topic, 0)
    send_numbers(broker, topic, range(10), 0)
    settings = {"group_id": name, "auto_offset_reset": "earliest", "enable_auto_commit": False}

    async def case() -> None:
        async with aio.Consumer(broker, **settings) as consumer:  # type: ignore[arg-type]
            await consumer.subscribe(pattern=re.escape(topic[:-3]) + ".*")
            assert await take(consumer, 10) == numbers(0, 10)
            await consumer.commit({place: OffsetAndMetadata(9)})
            (committed,) = (await consumer.committed([place])).values()
            assert committed is not None
            await consumer.seek(place, committed)
            assert await take(consumer, 1) == [b"9"]
        async with aio.Consumer(broker, **settings) as consumer:  # type: ignore[arg-type]
            await consumer.subscribe([topic])
            assert await take(consumer, 1) == [b"9"]
            assert await consumer.subscription() == {topic}

    asyncio.run(case())


def test_subscribe_errors(broker: str, topic: str, name: str) -> None:
    async def case() -> None:
        async with aio.Consumer(broker, group_id=name) as consumer:
            with pytest.raises(ValueError, match="not both"):
                await consumer.subscribe([topic], pattern="some")
            with pytest.raises(re.error):
                await consumer.subscribe(pattern="^(spome(")
            with pytest.raises(TypeError):
                await consumer.subscribe("some_topic")

    asyncio.run(case())


def test_consumer_seek_to_beginning_and_end(broker: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send_numbers(broker, topic, range(1, 4))

    async def case() -> None:
        async with aio.Consumer(broker, auto_offset_reset="earliest") as consumer:
            await consumer.assign([place])
            assert await take(consumer, 1) == [b"1"]
            # What was fetched after the first record is dropped by each seek.
            await consumer.seek_to_beginning()
            assert await take(consumer, 1) == [b"1"]
            await consumer.seek(place, 2)
            assert await take(consumer, 1) == [b"3"]
            assert await consumer.getmany(timeout_ms=0) == []
            await consumer.seek_to_end()
            assert await consumer.position(place) == 3
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await asyncio.to_thread(send_numbers, broker, topic, range(4, 5))
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await waiting).value == b"4"

    asyncio.run(case())


def test_consumer_seek_on_unassigned(broker: str, topic: str) -> None:
    other = TopicPartition(topic, 1)

    async def case() -> None:
        async with aio.Consumer(broker) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            for seek in (consumer.seek_to_beginning, consumer.seek_to_end):
                with pytest.raises(LookupError):
                    await seek([other])
            with pytest.raises(LookupError):
                await consumer.position(other)
            with pytest.raises(ValueError, match="negative"):
                await consumer.seek(TopicPartition(topic, 0), -1)

    asyncio.run(case())


def test_check_extended_message_record(broker: str, topic: str) -> None:
    async def case() -> None:
        before_ms = time.time_ns() // 1_000_000
        async with aio.Producer(broker) as producer:
            await producer.send_and_wait(topic, b"some-message#1", partition=1)
        async with aio.Consumer(broker, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 1)])
            async with asyncio.timeout(PATIENCE_SECONDS):
                record = await consumer.getone()
            assert (record.key, record.value, record.timestamp_type) == (None, b"some-message#1", 0)
            assert record.timestamp_ms >= before_ms

    asyncio.run(case())


def test_max_poll_records(broker: str, topic: str) -> None:
    send_numbers(broker, topic, range(100))

    async def case() -> None:
        async with aio.Consumer(broker, auto_offset_reset="earliest", max_poll_records=48) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            counts = [len(await consumer.getmany(10_000))]
            counts.append(len(await consumer.getmany(10_000, max_records=42)))
            while sum(counts) < 100:
                counts.append(len(await consumer.getmany(10_000)))
            assert counts[:2] == [48, 42]
            assert sum(counts) == 100
            assert await consumer.getmany(100, max_records=100) == []

    asyncio.run(case())
    with pytest.raises(ValueError, match="max_poll_records"):
        aio.Consumer(broker, max_poll_records=0)


def test_consumer_arguments(broker: str) -> None:
    with pytest.raises(ValueError, match="READ_CCC"):
        aio.Consumer(broker, isolation_level="READ_CCC")


def test_consumer_commit_validation(broker: str, topic: str, name: str) -> None:
    async def case() -> None:
        async with aio.Consumer(broker, group_id=name) as consumer:
            with pytest.raises(ValueError, match="offset"):
                await consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(-1)})

    asyncio.run(case())
