"""aiokafka as a member of a group (see talk.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from tests.groups.members.talk import BATCH_RECORDS, POLL_MS, Member, Place, Positions, Rebalances, Settings, Taken

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

T = TypeVar("T")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, positions: Positions) -> None:
        self._told = Rebalances(positions)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._told.on_partitions_assigned(assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._told.on_partitions_revoked(revoked)


class AiokafkaMember(Member):
    """The clients live on an event loop, which runs while the member waits for one of them, and while it pauses."""

    errors = (KafkaError,)
    refusals = (KafkaError, ValueError)  # ValueError: "not assigned"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._loop = asyncio.new_event_loop()
        self._wait(self._start())

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    async def _start(self) -> None:
        settings = self._settings
        strategy = {"partition_assignment_strategy": [ASSIGNORS[settings.assignor]]} if settings.assignor else {}
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            group_instance_id=settings.instance or None,
            client_id="aiokafka",
            enable_auto_commit=settings.commit == "auto",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS,
            metadata_max_age_ms=3000,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            **strategy,
            rebalance_timeout_ms=60_000,
        )
        self._producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap, acks="all")

    def _subscribe(self) -> None:
        listener = _Listener(self._positions)
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=listener)
        else:
            self._consumer.subscribe(self._settings.topics.split(","), listener=listener)
        self._wait(self._consumer.start())
        self._wait(self._producer.start())

    def _poll(self) -> list[Taken]:
        polled = self._wait(self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_RECORDS))
        return [Taken(each.topic, each.partition, each.offset, each.value) for some in polled.values() for each in some]

    def _send(self, values: Sequence[bytes]) -> None:
        async def send() -> None:
            await asyncio.gather(*[await self._producer.send(self._settings.sink, value) for value in values])

        self._wait(send())

    def _pause(self, seconds: float) -> None:
        self._wait(asyncio.sleep(seconds))

    def _commit_offsets(self, offsets: Mapping[Place, int]) -> None:
        self._wait(self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()}))

    def _close(self) -> None:
        self._wait(self._producer.stop())
        self._wait(self._consumer.stop())


if __name__ == "__main__":
    AiokafkaMember.main()
