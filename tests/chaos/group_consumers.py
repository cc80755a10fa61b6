"""Consumers in a group, of three libraries, behind one protocol. They read what is committed, and commit by hand.

Made and used by the thread of a GroupReader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError as KafkaPythonConnectionError
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata as KafkaPythonOffset
from kafka.structs import TopicPartition as KafkaPythonPartition

from barnabas.clients.consumer import Consumer
from barnabas.clients.errors import ClientTimeout, CommitFailed, Disconnected
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition

_COMMIT_SECONDS = 10


class Polled(NamedTuple):
    """A record that a consumer was given."""

    partition: int
    offset: int
    value: bytes


class GroupConsumer(Protocol):
    """The only member of its group."""

    def poll(self, seconds: float) -> Sequence[Polled]:
        """Return the next records."""

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit the offset of each partition. Return whether it was acknowledged."""

    def close(self) -> None:
        """Leave the group."""


class ConfluentGroupConsumer:
    """librdkafka."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> Sequence[Polled]:
        found = []
        for message in self._consumer.consume(200, seconds):
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is None and partition is not None and offset is not None:
                assert isinstance(value, bytes)
                found.append(Polled(partition, offset, value))
        return found

    def commit(self, offsets: Mapping[int, int]) -> bool:
        wanted = [ConfluentPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return all(each.error is None for each in done)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonGroupConsumer:
    """kafka-python."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=300,
        )

    def poll(self, seconds: float) -> Sequence[Polled]:
        try:
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        except KafkaPythonConnectionError:  # a broker is down: this library lets it out of poll
            return []
        return [Polled(each.partition, each.offset, each.value) for records in polled.values() for each in records]

    def commit(self, offsets: Mapping[int, int]) -> bool:
        wanted = {
            KafkaPythonPartition(self._topic, partition): KafkaPythonOffset(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted, timeout_ms=_COMMIT_SECONDS * 1000)
        except KafkaPythonError:
            return False
        return True

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=5_000)


class BarnabasGroupConsumer:
    """Ours."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            bootstrap,
            group_id=group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> Sequence[Polled]:
        return [Polled(each.partition, each.offset, each.value) for each in self._consumer.poll(seconds * 1000)]

    def commit(self, offsets: Mapping[int, int]) -> bool:
        wanted = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset) for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit_sync(wanted, timeout_ms=_COMMIT_SECONDS * 1000)
        except (ApiError, ClientTimeout, CommitFailed, Disconnected):
            return False
        return True

    def close(self) -> None:
        self._consumer.close()
