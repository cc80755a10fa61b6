"""aiokafka as a member of a group (see talk.py)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from tests.groups.members.talk import (
    BATCH_RECORDS,
    POLL_MS,
    Commands,
    Positions,
    Settings,
    Taken,
    tell,
    tell_committed,
    tell_records,
)

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        tell("assigned", partitions=[(place.topic, place.partition) for place in assigned])

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        gone = [(place.topic, place.partition) for place in revoked]
        self._positions.forget(gone)
        tell("revoked", partitions=gone, lost=False)


class AiokafkaMember:
    """One consumer, on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._positions = Positions()
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
            **_assignors(settings),
            rebalance_timeout_ms=60_000,
        )
        self._producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap, acks="all")

    async def run(self) -> None:
        """Work until told to close."""
        commands = Commands()
        listener = _Listener(self._positions)
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=listener)
        else:
            self._consumer.subscribe(self._settings.topics.split(","), listener=listener)
        await self._consumer.start()
        await self._producer.start()
        while (command := commands.next()) != "close":
            if command == "commit":
                await self._commit()
            polled = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_RECORDS)
            await self._work_on([_taken(record) for some in polled.values() for record in some])
        await self._producer.stop()
        await self._consumer.stop()
        tell("closed")

    async def _work_on(self, records: list[Taken]) -> None:
        if not records:
            return
        if self._settings.sink:
            await asyncio.gather(*[await self._producer.send(self._settings.sink, record.value) for record in records])
        await asyncio.sleep(self._settings.pause_ms / 1000)
        tell_records(records)
        self._positions.worked_on(records)
        if self._settings.commit == "batch":
            await self._commit()

    async def _commit(self) -> None:
        offsets = self._positions.take()
        try:
            await self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})
        except (KafkaError, ValueError) as refused:  # ValueError: "not assigned"
            tell("commit_refused", reason=repr(refused))
        else:
            tell_committed(offsets)


def _assignors(settings: Settings) -> dict[str, Any]:
    return {"partition_assignment_strategy": [ASSIGNORS[settings.assignor]]} if settings.assignor else {}


def _taken(record: Any) -> Taken:
    return Taken(record.topic, record.partition, record.offset, record.value)


async def main() -> None:
    """A member must be made inside its event loop."""
    await AiokafkaMember(Settings.of_command_line()).run()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KafkaError as failure:
        tell("failed", reason=repr(failure))
        sys.exit(1)
