"""kafka-python as a member of a group (see talk.py)."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

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

_LOG = logging.getLogger(__name__)
SECONDS = 60
HUNG_SECONDS = 30
"""kafka-python 3.0 loses, once in some fifty times, the answer to a leader's SyncGroup that follows soon upon another,
and neither joins nor heartbeats from then on; with Apache Kafka as with us. The poll() that began the join has ended by
then: the join ends in the background, and nothing applies its assignment. A member that has nothing for so long starts
anew."""
METADATA_SECONDS = 0.5
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, positions: Positions, *, is_eager: bool) -> None:
        self._positions = positions
        self._is_eager = is_eager
        self.waits_since: float | None = time.monotonic()
        """When it gave back all it had, or has started."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.waits_since = None
        tell("assigned", partitions=[(place.topic, place.partition) for place in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        if self._is_eager:
            self.waits_since = time.monotonic()
        self._gone(revoked, is_lost=False)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._gone(lost, is_lost=True)

    def _gone(self, places: Iterable[Any], *, is_lost: bool) -> None:
        gone = [(place.topic, place.partition) for place in places]
        self._positions.forget(gone)
        tell("revoked", partitions=gone, lost=is_lost)


class KafkaPythonMember:
    """One consumer, on one thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._positions = Positions()
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            group_instance_id=settings.instance or None,
            client_id="kafka-python",
            enable_auto_commit=settings.commit == "auto",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS,
            max_poll_records=BATCH_RECORDS,
            metadata_max_age_ms=3000,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            **_assignors(settings),
            reconnect_backoff_max_ms=1000,
        )
        self._producer: Any = KafkaProducer(bootstrap_servers=settings.bootstrap, acks="all", retries=100)

    def run(self) -> None:
        """Work until told to close."""
        commands = Commands()
        listener = _Listener(self._positions, is_eager=self._settings.assignor != "cooperative-sticky")
        self._subscribe(listener)
        while (command := commands.next()) != "close":
            if listener.waits_since is not None and time.monotonic() > listener.waits_since + HUNG_SECONDS:
                os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]])
            if command == "commit":
                self._commit()
            self._work_on(self._poll())
        self._consumer.close()
        tell("closed")

    def _subscribe(self, listener: ConsumerRebalanceListener) -> None:
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=listener)
            return
        topics = self._settings.topics.split(",")
        self._consumer.subscribe(topics, listener=listener)
        # Else it joins before it knows the topics, and again at once when it does: then it may hang (see above).
        time.sleep(METADATA_SECONDS)

    def _poll(self) -> list[Taken]:
        """Fetch the next records: none when a retriable error ended the call.

        kafka-python 3.0.12 looks for the coordinator inside of poll(). When that fails it refreshes its metadata, and
        raises what the refresh met (`BaseCoordinator.ensure_coordinator_ready_async` expects only a time-out there):
        KafkaConnectionError while the broker is away. Java's poll() retries, and so does this member.
        """
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as failure:
            if not failure.retriable:
                raise
            _LOG.exception("poll() raised a retriable error")
            return []
        return [_taken(record) for some in polled.values() for record in some]

    def _work_on(self, records: list[Taken]) -> None:
        if not records:
            return
        if self._settings.sink:
            futures = [self._producer.send(self._settings.sink, record.value) for record in records]
            for future in futures:
                future.get(SECONDS)
        time.sleep(self._settings.pause_ms / 1000)
        tell_records(records)
        self._positions.worked_on(records)
        if self._settings.commit == "batch":
            self._commit()

    def _commit(self) -> None:
        offsets = self._positions.take()
        try:
            self._consumer.commit(
                {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
            )
        except KafkaError as refused:
            tell("commit_refused", reason=repr(refused))
        else:
            tell_committed(offsets)


def _assignors(settings: Settings) -> dict[str, Any]:
    return {"partition_assignment_strategy": [ASSIGNORS[settings.assignor]]} if settings.assignor else {}


def _taken(record: Any) -> Taken:
    return Taken(record.topic, record.partition, record.offset, record.value)


if __name__ == "__main__":
    try:
        KafkaPythonMember(Settings.of_command_line()).run()
    except KafkaError as failure:
        _LOG.exception("the member ends")
        tell("failed", reason=repr(failure))
        sys.exit(1)
