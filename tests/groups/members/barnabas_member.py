"""Our own clients as a member of a group (see talk.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.clients.errors import ClientTimeout, CommitFailed
from barnabas.clients.producer import Producer
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.errors import ApiError
from tests.groups.members.talk import BATCH_RECORDS, POLL_MS, SECONDS, Member, Place, Rebalances, Settings, Taken

OWN_ASSIGNORS = ConsumerConfig().partition_assignment_strategy


class _Listener(Rebalances, RebalanceListener):
    pass


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


class BarnabasMember(Member):
    errors = (ApiError, ClientTimeout)
    refusals = (CommitFailed, ApiError, ClientTimeout)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._consumer = Consumer(settings.bootstrap, **_consumer_settings(settings))
        self._producer = Producer(settings.bootstrap, linger_ms=0)

    def _subscribe(self) -> None:
        listener = _Listener(self._positions)
        if self._settings.pattern:
            self._consumer.subscribe(pattern=self._settings.pattern, listener=listener)
        else:
            self._consumer.subscribe(self._settings.topics.split(","), listener=listener)

    def _poll(self) -> list[Taken]:
        polled = self._consumer.poll(POLL_MS)
        return [Taken(each.topic, each.partition, each.offset, each.value or b"") for each in polled]

    def _send(self, values: Sequence[bytes]) -> None:
        for future in [self._producer.send(self._settings.sink, value) for value in values]:
            future.result(SECONDS)

    def _commit_offsets(self, offsets: Mapping[Place, int]) -> None:
        self._consumer.commit_sync(
            {TopicPartition(*place): OffsetAndMetadata(offset) for place, offset in offsets.items()}
        )

    def _close(self) -> None:
        self._consumer.close()
        self._producer.close()


if __name__ == "__main__":
    BarnabasMember.main()
