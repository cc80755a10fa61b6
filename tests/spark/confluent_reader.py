"""Reads a topic by librdkafka's consumer, which shares no code with the source and the sink."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as ConfluentPartition

SECONDS = 60.0
"""The longest wait for a broker's answer."""


class Place(NamedTuple):
    """A record: where it is, and its value."""

    partition: int
    offset: int
    value: bytes


def consume(servers: str, topic: str, level: str) -> list[Place]:
    """Read all that the topic has now. `level`: the isolation level."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": uuid.uuid4().hex,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": level,
    }
    found = []
    with closing(Consumer(settings)) as consumer:
        waiting = set(consumer.list_topics(topic, SECONDS).topics[topic].partitions)
        consumer.assign([ConfluentPartition(topic, number, OFFSET_BEGINNING) for number in waiting])
        while waiting:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no end of {waiting}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition() or 0)
                continue
            place = message.partition(), message.offset(), message.value()
            assert None not in place
            found.append(Place(*place))  # type: ignore[arg-type]
    return sorted(found)
