"""The asyncio consumer on scripted brokers: what is handed out is what counts, cancelled or not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.clients import consumer as core
from barnabas.clients.aio import AsyncRebalanceListener, Consumer
from barnabas.clients.errors import ClientClosed
from barnabas.clients.values import OffsetAndMetadata
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_cluster import TP0, TP1, ScriptedCluster
from tests.support.scripted_group import ScriptedGroup

WAIT_S = 60


def _fill(cluster: ScriptedCluster, count: int = 10, partitions: int = 2) -> None:
    for partition in range(partitions):
        builder = RecordBatchBuilder()
        for number in range(count):
            builder.append(1_000, None, b"%d-%d" % (partition, number))
        cluster.logs["t", partition] = builder.build()


def _of(cluster: ScriptedCluster, **settings: Any) -> Consumer:
    def make(_servers: str, config: core.ConsumerConfig) -> core.Consumer:
        return core.Consumer("", config, client=cluster.client())

    return Consumer("", make=make, **{"auto_offset_reset": "earliest", **settings})


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_one_by_one_and_many_with_the_positions_that_the_user_sees() -> None:
    cluster = ScriptedCluster({"t": [0, 0]})
    _fill(cluster)

    async def main() -> None:
        async with _of(cluster) as consumer:
            await consumer.assign([TP0])
            assert [(await consumer.getone()).value for _ in range(3)] == [b"0-0", b"0-1", b"0-2"]
            assert await consumer.position(TP0) == 3
            assert [each.offset for each in await consumer.getmany(1_000, max_records=2)] == [3, 4]
            await consumer.seek(TP0, 1)
            assert (await consumer.getone()).offset == 1
            await consumer.pause([TP0])
            assert await consumer.getmany(0) == []
            assert await consumer.paused() == {TP0}
            assert await consumer.position(TP0) == 2
            await consumer.resume([TP0])
            assert (await consumer.getone()).offset == 2
            await consumer.assign([TP0, TP1])
            assert await consumer.assignment() == {TP0, TP1}
            values = [(await consumer.getone()).value for _ in range(17)]
            assert sorted(values) == sorted([b"0-%d" % n for n in range(3, 10)] + [b"1-%d" % n for n in range(10)])
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).offset == 0
            assert await consumer.end_offsets([TP0]) == {TP0: 10}

    asyncio.run(main())


def test_a_cancelled_poll_loses_no_record() -> None:
    cluster = ScriptedCluster({"t": [0]})
    _fill(cluster, 500, 1)

    async def main() -> None:
        async with _of(cluster, max_poll_records=7) as consumer:
            await consumer.assign([TP0])
            values: list[bytes] = []
            cancelled = 0
            while len(values) < 500:
                task = asyncio.create_task(consumer.getmany(10_000, max_records=3))
                # At any moment: before the call begins, in it, and after its end.
                for _ in range(len(values) % 5):
                    await asyncio.sleep(0)
                if cancelled < 400:
                    task.cancel()
                    cancelled += 1
                try:
                    values += [record.value for record in await task]
                except asyncio.CancelledError:
                    continue
            assert values == [b"0-%d" % number for number in range(500)]

    asyncio.run(main())


def test_several_tasks_share_the_records_and_the_loop_ends_with_the_consumer() -> None:
    cluster = ScriptedCluster({"t": [0]})
    _fill(cluster, 200, 1)

    async def main() -> None:
        seen: list[int] = []
        consumer = _of(cluster)
        with pytest.raises(RuntimeError, match="start"):
            await consumer.getone()
        await consumer.stop()
        await consumer.start()
        with pytest.raises(RuntimeError, match="started already"):
            await consumer.start()
        await consumer.assign([TP0])

        async def read() -> None:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 200:
                    await consumer.stop()

        await asyncio.wait_for(asyncio.gather(*(read() for _ in range(3))), WAIT_S)
        assert sorted(seen) == list(range(200))
        await consumer.stop()
        with pytest.raises(ClientClosed):
            await consumer.getone()

    asyncio.run(main())


def test_errors_of_the_core_reach_the_task() -> None:
    cluster = ScriptedCluster({"t": [0]})
    _fill(cluster, 1, 1)

    async def main() -> None:
        async with _of(cluster, value_deserializer="json") as consumer:
            with pytest.raises(RuntimeError, match="not subscribed"):
                await consumer.getmany(0)
            with pytest.raises(LookupError):
                await consumer.seek(TP0, 1)
            with pytest.raises(ValueError, match="group_id"):
                await consumer.commit()
            await consumer.assign([TP0])
            with pytest.raises(core.RecordDeserializationError):
                await consumer.getone()
        with pytest.raises(TypeError, match="no setting"):
            _of(cluster, linger=1)

    asyncio.run(main())


class Listener(AsyncRebalanceListener):
    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.calls: list[Any] = []

    async def on_partitions_assigned(self, partitions: Any) -> None:
        assert self.consumer is not None
        await asyncio.sleep(0)
        self.calls.append(("assigned", list(partitions)))
        await self.consumer.seek(TP0, 4)
        with pytest.raises(RuntimeError, match="cannot wait for records"):
            await self.consumer.getone()

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.calls.append(("revoked", list(partitions)))


@pytest.mark.parametrize("auto", [False, True], ids=["commit", "auto-commit"])
def test_a_group_commits_what_was_handed_out_and_its_listener_may_await(auto: bool) -> None:
    group = ScriptedGroup({"t": [0, 0]})
    _fill(group.cluster)
    listener = Listener()

    def make(_servers: str, _config: object) -> core.Consumer:
        return group.consumer(enable_auto_commit=auto)

    async def main() -> None:
        async with Consumer("", make=make, group_id="g") as consumer:
            listener.consumer = consumer
            await consumer.subscribe(["t"], listener=listener)
            records = [await consumer.getone() for _ in range(3)]
            assert listener.calls == [("assigned", [TP0, TP1])]
            assert await consumer.subscription() == {"t"}
            expected = {(each.topic, each.partition): each.offset + 1 for each in records}
            if not auto:
                await consumer.commit()
                stored = {place: offset for place, (offset, *_) in group.committed.items() if place in expected}
                assert stored == expected
                await consumer.commit({TP1: OffsetAndMetadata(9)})
                assert (await consumer.committed([TP1]))[TP1] == OffsetAndMetadata(9)
        if auto:
            stored = {place: offset for place, (offset, *_) in group.committed.items() if place in expected}
            assert stored == expected
        assert listener.calls[1:] == [("revoked", [TP0, TP1])]

    asyncio.run(main())


def test_a_group_commits_nothing_after_an_exception() -> None:
    group = ScriptedGroup({"t": [0]})
    _fill(group.cluster, partitions=1)

    async def main() -> None:
        async with Consumer("", make=lambda _servers, _config: group.consumer(), group_id="g") as consumer:
            await consumer.subscribe(["t"])
            assert (await consumer.getone()).offset == 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert not group.committed
