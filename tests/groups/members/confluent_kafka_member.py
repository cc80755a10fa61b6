"""confluent-kafka as a member of a group (see talk.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.groups.members.talk import BATCH_RECORDS, POLL_MS, SECONDS, Member, Place, Rebalances, Settings, Taken, tell


class ConfluentKafkaMember(Member):
    """The callbacks run inside `consume` and `close`."""

    errors = refusals = (KafkaException,)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._fatal: KafkaError | None = None
        self._consumer = Consumer(self._configuration())
        self._producer = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 2})

    def _configuration(self) -> dict[str, Any]:
        settings = self._settings
        configuration: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "client.id": "confluent-kafka",
            "enable.auto.commit": settings.commit == "auto",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": POLL_MS,
            "topic.metadata.refresh.interval.ms": 3000,
            "group.protocol": settings.protocol,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": self._heard_of_error,
        }
        if settings.protocol == "classic" and settings.assignor:
            configuration["partition.assignment.strategy"] = settings.assignor
        if settings.protocol == "classic":
            configuration["session.timeout.ms"] = settings.session_ms
            configuration["heartbeat.interval.ms"] = settings.heartbeat_ms
        if settings.instance:
            configuration["group.instance.id"] = settings.instance
        return configuration

    def _subscribe(self) -> None:
        listener = Rebalances(self._positions)
        self._consumer.subscribe(
            self._settings.topics.split(","),
            on_assign=lambda _, places: listener.on_partitions_assigned(places),
            on_revoke=lambda _, places: listener.on_partitions_revoked(places),
            on_lost=lambda _, places: listener.on_partitions_lost(places),
        )

    def _poll(self) -> list[Taken]:
        messages = self._consumer.consume(BATCH_RECORDS, POLL_MS / 1000)
        for message in messages:
            if (error := message.error()) is not None:
                self._heard_of_error(error)
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        return [_taken(message) for message in messages if message.error() is None]

    def _send(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._producer.produce(self._settings.sink, value, on_delivery=_on_delivery)
        assert self._producer.flush(SECONDS) == 0

    def _commit_offsets(self, offsets: Mapping[Place, int]) -> None:
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        for place in self._consumer.commit(offsets=places, asynchronous=False) or ():
            if place.error is not None:
                raise KafkaException(place.error)

    def _close(self) -> None:
        self._consumer.close()

    def _heard_of_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = error


def _taken(message: Any) -> Taken:
    return Taken(message.topic(), message.partition(), message.offset(), message.value())


def _on_delivery(error: Any, _message: Message) -> None:
    if error is not None:
        tell("failed", reason=f"not delivered: {error}")


if __name__ == "__main__":
    ConfluentKafkaMember.main()
