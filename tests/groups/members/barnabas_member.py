"""Our own clients as a member of a group (see talk.py)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.clients.errors import ClientTimeout, CommitFailed
from barnabas.clients.producer import Producer
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.errors import ApiError
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

SECONDS = 60
OWN_ASSIGNORS = ConsumerConfig().partition_assignment_strategy


class _Listener(RebalanceListener):
    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        tell("assigned", partitions=[(place.topic, place.partition) for place in partitions])

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._gone(partitions, is_lost=False)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._gone(partitions, is_lost=True)

    def _gone(self, places: Sequence[TopicPartition], *, is_lost: bool) -> None:
        gone = [(place.topic, place.partition) for place in places]
        self._positions.forget(gone)
        tell("revoked", partitions=gone, lost=is_lost)


def _consumer_settings(settings: Settings) -> ConsumerSettings:
    chosen: ConsumerSettings = {
        "group_id": settings.group,
        "group_instance_id": settings.instance or None,
        "client_id": "barnabas",
        "enable_auto_commit": settings.commit == "auto",
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": POLL_MS,
        "max_poll_records": BATCH_RECORDS,
        "metadata_max_age_ms": 3000,
    }
    if settings.protocol == "consumer":
        # The broker sets this protocol's times.
        chosen["group_protocol"] = "consumer"
    else:
        chosen["session_timeout_ms"] = settings.session_ms
        chosen["heartbeat_interval_ms"] = settings.heartbeat_ms
        chosen["partition_assignment_strategy"] = [settings.assignor] if settings.assignor else OWN_ASSIGNORS
    return chosen


class BarnabasMember:
    """One consumer, on one thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._positions = Positions()
        self._consumer = Consumer(settings.bootstrap, **_consumer_settings(settings))
        self._producer = Producer(settings.bootstrap, linger_ms=0)

    def run(self) -> None:
        """Work until told to close."""
        commands = Commands()
        listener = _Listener(self._positions)
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=listener)
        else:
            self._consumer.subscribe(self._settings.topics.split(","), listener=listener)
        while (command := commands.next()) != "close":
            if command == "commit":
                self._commit()
            polled = self._consumer.poll(POLL_MS)
            self._work_on([Taken(each.topic, each.partition, each.offset, each.value or b"") for each in polled])
        self._consumer.close()
        self._producer.close()
        tell("closed")

    def _work_on(self, records: list[Taken]) -> None:
        if not records:
            return
        if self._settings.sink:
            for future in [self._producer.send(self._settings.sink, record.value) for record in records]:
                future.result(SECONDS)
        time.sleep(self._settings.pause_ms / 1000)
        tell_records(records)
        self._positions.worked_on(records)
        if self._settings.commit == "batch":
            self._commit()

    def _commit(self) -> None:
        offsets = self._positions.take()
        try:
            self._consumer.commit_sync(
                {TopicPartition(*place): OffsetAndMetadata(offset) for place, offset in offsets.items()}
            )
        except (CommitFailed, ApiError, ClientTimeout) as refused:
            tell("commit_refused", reason=repr(refused))
        else:
            tell_committed(offsets)


if __name__ == "__main__":
    try:
        BarnabasMember(Settings.of_command_line()).run()
    except (ApiError, ClientTimeout) as failure:
        tell("failed", reason=repr(failure))
        sys.exit(1)
