"""confluent-kafka as a member of a group (see talk.py)."""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

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


class ConfluentKafkaMember:
    """One consumer, on one thread; its callbacks run inside `consume` and `close`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._positions = Positions()
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

    def run(self) -> None:
        """Work until told to close."""
        commands = Commands()
        self._consumer.subscribe(
            self._settings.topics.split(","), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        while (command := commands.next()) != "close":
            if command == "commit":
                self._commit()
            self._work_on(self._consumer.consume(BATCH_RECORDS, POLL_MS / 1000))
            if self._fatal is not None:
                raise KafkaException(self._fatal)
        self._consumer.close()
        tell("closed")

    def _work_on(self, messages: list[Any]) -> None:
        for message in messages:
            if message.error() is not None:
                self._heard_of_error(message.error())
        records = [_taken(message) for message in messages if message.error() is None]
        if not records:
            return
        if self._settings.sink:
            for record in records:
                self._producer.produce(self._settings.sink, record.value, on_delivery=_on_delivery)
            assert self._producer.flush(SECONDS) == 0
        time.sleep(self._settings.pause_ms / 1000)
        tell_records(records)
        self._positions.worked_on(records)
        if self._settings.commit == "batch":
            self._commit()

    def _commit(self) -> None:
        offsets = self._positions.take()
        try:
            places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            for place in self._consumer.commit(offsets=places, asynchronous=False) or ():
                if place.error is not None:
                    raise KafkaException(place.error)
        except KafkaException as refused:
            tell("commit_refused", reason=str(refused))
        else:
            tell_committed(offsets)

    def _heard_of_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = error

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        tell("assigned", partitions=[(place.topic, place.partition) for place in places])

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._gone(places, is_lost=False)

    def _lost(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._gone(places, is_lost=True)

    def _gone(self, places: list[TopicPartition], *, is_lost: bool) -> None:
        gone = [(place.topic, place.partition) for place in places]
        self._positions.forget(gone)
        tell("revoked", partitions=gone, lost=is_lost)


def _taken(message: Any) -> Taken:
    return Taken(message.topic(), message.partition(), message.offset(), message.value())


def _on_delivery(error: Any, _message: Message) -> None:
    if error is not None:
        tell("failed", reason=f"not delivered: {error}")


if __name__ == "__main__":
    try:
        ConfluentKafkaMember(Settings.of_command_line()).run()
    except KafkaException as failure:
        tell("failed", reason=str(failure))
        sys.exit(1)
