"""The asyncio producer: awaits instead of blocking, cancellation, the end. Its thread is on a scripted network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from barnabas.clients.aio import Producer
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.errors import BufferExhausted, ClientClosed, ClientTimeout, SerializationFailed
from barnabas.clients.producer import MutableHeaders, OutgoingRecord, ProducerConfig, RecordMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.unit.clients.producer.producer_harness import ProducerSetting

WAIT_S = 60
ROOM_FOR_TWO_BATCHES: Any = {"batch_size": 1_000, "buffer_memory": 2_000}
RECORD = bytes(900)


class Setting(ProducerSetting):
    """A producer's scripted broker, which answers while the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        answer = self.produce

        def gated(request: Any) -> Any:
            self.asked.set()
            assert self.gate.wait(WAIT_S)
            return answer(request)

        self.cluster.handlers[ApiKey.PRODUCE] = gated

    def aio_producer(self, **settings: Any) -> Producer:
        return Producer(
            "127.0.0.1:9092",
            clock=self.cluster.clock,
            random=Random(1),
            make_selector=lambda clock, *, max_idle_ms: self.selector,
            **settings,
        )

    def values(self) -> list[bytes]:
        return [
            record.value
            for partition in sorted(self.stored)
            for batch in self.stored[partition]
            for record in batch.records()
        ]


@pytest.fixture
def setting() -> Iterator[Setting]:
    before = set(threading.enumerate())
    made = Setting()
    yield made
    made.gate.set()
    assert set(threading.enumerate()) <= before, "a thread is left"


async def _turns() -> None:
    """Let the other tasks run for as long as they can without waiting for a thread."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_records_arrive_with_everything(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(compression_type="lz4", client_id="mine") as producer:
            assert "kafka-producer-network-thread | mine" in {thread.name for thread in threading.enumerate()}
            future = await producer.send(
                "t", b"value", b"key", [("h", b"1"), ("n", None)], partition=2, timestamp_ms=77
            )
            assert await future == RecordMetadata("t", 2, 0, 77, 3, 5)
            assert (await producer.send_and_wait("t", b"second", partition=2)).offset == 1
            assert [each.partition for each in await producer.partitions_for("t")] == [0, 1, 2]
            sent = MetricName("record-send-total", "producer-metrics", (("client-id", "mine"),))
            assert producer.metrics()[sent] == 2
        (record,) = setting.stored[2][0].records()
        assert (record.timestamp, record.key, record.headers) == (77, b"key", (("h", b"1"), ("n", None)))

    asyncio.run(main())


def test_flush_and_stop_send_what_lingers_and_end_all_futures(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(linger_ms=1_000_000, delivery_timeout_ms=2_000_000) as producer:
            flushed = [await producer.send("t", b"%d" % number) for number in range(200)]
            await producer.flush()
            assert all(future.done() for future in flushed)
            rest = await producer.send("t", b"last")
        assert rest.done()
        assert rest.result().topic == "t"

    asyncio.run(main())
    assert len(setting.values()) == 201


def test_a_full_buffer_makes_the_task_wait_and_no_other(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(**ROOM_FOR_TWO_BATCHES) as producer:
            setting.gate.clear()
            first = [await producer.send("t", RECORD, partition=0) for _ in range(2)]
            waiting = [asyncio.create_task(producer.send("t", b"%d" % number, partition=0)) for number in range(3)]
            await _turns()
            assert not any(task.done() for task in waiting)
            setting.gate.set()
            rest = await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
            await asyncio.wait_for(asyncio.gather(*first, *rest), WAIT_S)

    asyncio.run(main())
    assert setting.values() == [RECORD, RECORD, b"0", b"1", b"2"]


def test_a_cancelled_send_queues_nothing_and_lets_the_next_one_go(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(**ROOM_FOR_TWO_BATCHES) as producer:
            setting.gate.clear()
            for _ in range(2):
                await producer.send("t", RECORD, partition=0)
            cancelled = asyncio.create_task(producer.send("t", b"cancelled", partition=0))
            await _turns()
            kept = asyncio.create_task(producer.send("t", b"kept", partition=0))
            await _turns()
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            setting.gate.set()
            await asyncio.wait_for(await asyncio.wait_for(kept, WAIT_S), WAIT_S)

    asyncio.run(main())
    assert setting.values() == [RECORD, RECORD, b"kept"]


def test_a_cancelled_future_does_not_disturb_the_others(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(linger_ms=1_000_000, delivery_timeout_ms=2_000_000) as producer:
            cancelled, kept = [await producer.send("t", b"v", partition=0) for _ in range(2)]
            cancelled.cancel()
            await producer.flush()
            assert kept.result().offset == 1
            assert cancelled.cancelled()

    asyncio.run(main())


class Interceptor:
    def __init__(self) -> None:
        self.results: list[Any] = []
        self.is_closed = False

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(headers=[*record.headers, ("seen", b"")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        self.results.append(metadata or type(error))

    def close(self) -> None:
        self.is_closed = True


def test_memory_and_metadata_that_do_not_come_in_time_fail_the_future(setting: Setting) -> None:
    interceptor = Interceptor()

    async def main() -> None:
        async with setting.aio_producer(
            max_block_ms=1, interceptor_classes=[interceptor], **ROOM_FOR_TWO_BATCHES
        ) as producer:
            unknown = await producer.send("missing", b"v")
            with pytest.raises(ClientTimeout, match="Topic missing not present in metadata after 1 ms"):
                unknown.result() if unknown.done() else await unknown
            with pytest.raises(ClientTimeout, match="Topic missing"):
                await producer.partitions_for("missing")
            while True:  # one millisecond may be too little for the first metadata
                try:
                    await producer.partitions_for("t")
                    break
                except ClientTimeout:
                    continue
            outside = await producer.send("t", b"v", partition=7)
            with pytest.raises(ClientTimeout, match="Partition 7 of topic t with partition count 3 not present"):
                await outside
            setting.gate.clear()
            for _ in range(2):
                await producer.send("t", RECORD, partition=0)
            with pytest.raises(BufferExhausted, match=r"Failed to allocate 1000 bytes .* 1 ms"):
                await (await producer.send("t", b"v", partition=0))
            failed = [value for name, value in producer.metrics().items() if name.name == "record-error-total"]
            assert max(failed) == 3
            setting.gate.set()

    asyncio.run(main())
    assert interceptor.results[:3] == [ClientTimeout, ClientTimeout, BufferExhausted]
    assert [each.offset for each in interceptor.results[3:]] == [0, 1]
    assert interceptor.is_closed


def test_wrong_arguments_and_records_too_large(setting: Setting) -> None:
    async def main() -> None:
        async with setting.aio_producer(max_request_size=500, value_serializer="str") as producer:
            with pytest.raises(SerializationFailed):
                await producer.send("t", 7)
            with pytest.raises(TypeError):
                await producer.send("t", "v", key="text")
            with pytest.raises(ValueError, match="Invalid partition: -1"):
                await producer.send("t", "v", partition=-1)
            with pytest.raises(ApiError) as raised:
                await producer.send_and_wait("t", "v" * 1_000)
            assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(TypeError, match="no setting 'linger'"):
            setting.aio_producer(linger=5)
        with pytest.raises(TypeError, match="not both"):
            Producer("127.0.0.1:9092", ProducerConfig(), linger_ms=5)

    asyncio.run(main())


def test_serializers_that_see_the_headers_and_the_cluster(setting: Setting) -> None:
    class Registry:
        def __init__(self) -> None:
            self.clusters: list[Any] = []

        def serialize(self, topic: str, value: Any, headers: MutableHeaders) -> bytes:
            headers.append(("schema", b"7"))
            return str(value).encode()

        def on_cluster_update(self, cluster: Any) -> None:
            self.clusters.append(cluster)

    registry = Registry()

    async def main() -> None:
        async with setting.aio_producer(value_serializer=registry) as producer:
            await producer.send_and_wait("t", 42, partition=0)

    asyncio.run(main())
    (record,) = setting.stored[0][0].records()
    assert (record.value, record.headers) == (b"42", (("schema", b"7"),))
    assert registry.clusters


def test_use_before_start_after_stop_and_on_another_loop(setting: Setting) -> None:
    producer = setting.aio_producer()

    async def begin() -> None:
        with pytest.raises(RuntimeError, match="start"):
            await producer.send("t", b"v")
        await producer.stop()
        await producer.start()
        with pytest.raises(RuntimeError, match="started already"):
            await producer.start()

    async def elsewhere() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await producer.send("t", b"v")

    async def end() -> None:
        await producer.stop()
        await producer.stop()
        with pytest.raises(ClientClosed):
            await producer.send("t", b"v")

    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    first.run_until_complete(begin())
    second.run_until_complete(elsewhere())
    first.run_until_complete(end())
    first.close()
    second.close()


def test_stop_ends_tasks_that_wait(setting: Setting) -> None:
    async def main() -> None:
        producer = setting.aio_producer(**ROOM_FOR_TWO_BATCHES)
        await producer.start()
        await producer.partitions_for("t")
        setting.gate.clear()
        for _ in range(2):
            await producer.send("t", RECORD, partition=0)
        for_memory = asyncio.create_task(producer.send("t", b"v", partition=0))
        for_topic = asyncio.create_task(producer.send("missing", b"v"))
        await _turns()
        stopping = asyncio.create_task(producer.stop())
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(for_memory, WAIT_S)
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(for_topic, WAIT_S)
        setting.gate.set()
        await asyncio.wait_for(stopping, WAIT_S)

    asyncio.run(main())
    assert setting.values() == [RECORD, RECORD]


def test_a_cancelled_stop_fails_the_rest_and_leaves_no_thread(setting: Setting) -> None:
    async def main() -> None:
        producer = setting.aio_producer(max_in_flight_requests_per_connection=1, **ROOM_FOR_TWO_BATCHES)
        await producer.start()
        await producer.partitions_for("t")
        setting.gate.clear()
        futures = [await producer.send("t", RECORD, partition=0) for _ in range(2)]
        await asyncio.to_thread(setting.asked.wait, WAIT_S)
        stopping = asyncio.create_task(producer.stop())
        await _turns()
        stopping.cancel()
        await _turns()
        setting.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert all(future.done() for future in futures)
        assert isinstance(futures[1].exception(), ClientClosed)
        futures[0].exception()

    asyncio.run(main())


def test_many_sends_let_other_tasks_run(setting: Setting) -> None:
    async def main() -> None:
        seen: list[int] = []

        async def other() -> None:
            while len(seen) < 3:
                seen.append(len(seen))
                await asyncio.sleep(0)

        async with setting.aio_producer() as producer:
            await producer.partitions_for("t")
            task = asyncio.create_task(other())
            for _ in range(1_000):
                await producer.send("t", b"v")
            assert task.done()

    asyncio.run(main())
