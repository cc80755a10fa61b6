"""kafka-python as a member of a group (see talk.py)."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from tests.groups.members.talk import (
    BATCH_RECORDS,
    POLL_MS,
    SECONDS,
    Member,
    Place,
    Positions,
    Rebalances,
    Settings,
    Taken,
)

_LOG = logging.getLogger(__name__)
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


class _Listener(Rebalances, ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, positions: Positions, *, is_eager: bool) -> None:
        super().__init__(positions)
        self._is_eager = is_eager
        self.waits_since: float | None = time.monotonic()
        """When it gave back all it had, or has started."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.waits_since = None
        super().on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        if self._is_eager:
            self.waits_since = time.monotonic()
        super().on_partitions_revoked(revoked)


class KafkaPythonMember(Member):
    errors = refusals = (KafkaError,)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._listener = _Listener(self._positions, is_eager=settings.assignor != "cooperative-sticky")
        strategy = {"partition_assignment_strategy": [ASSIGNORS[settings.assignor]]} if settings.assignor else {}
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
            **strategy,
            reconnect_backoff_max_ms=1000,
        )
        self._producer: Any = KafkaProducer(bootstrap_servers=settings.bootstrap, acks="all", retries=100)

    def _subscribe(self) -> None:
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=self._listener)
            return
        self._consumer.subscribe(self._settings.topics.split(","), listener=self._listener)
        # Else it joins before it knows the topics, and again at once when it does: then it may hang (see above).
        time.sleep(METADATA_SECONDS)

    def _poll(self) -> list[Taken]:
        """Fetch the next records: none when a retriable error ended the call.

        kafka-python 3.0.12 looks for the coordinator inside of poll(). When that fails it refreshes its metadata, and
        raises what the refresh met (`BaseCoordinator.ensure_coordinator_ready_async` expects only a time-out there):
        KafkaConnectionError while the broker is away. Java's poll() retries, and so does this member.
        """
        waits_since = self._listener.waits_since
        if waits_since is not None and time.monotonic() > waits_since + HUNG_SECONDS:
            os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]])
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as failure:
            if not failure.retriable:
                raise
            _LOG.exception("poll() raised a retriable error")
            return []
        return [Taken(each.topic, each.partition, each.offset, each.value) for some in polled.values() for each in some]

    def _send(self, values: Sequence[bytes]) -> None:
        for future in [self._producer.send(self._settings.sink, value) for value in values]:
            future.get(SECONDS)

    def _commit_offsets(self, offsets: Mapping[Place, int]) -> None:
        self._consumer.commit(
            {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        )

    def _close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    KafkaPythonMember.main()
