"""Members of one group, polled in turn by one thread: what each read, and what its listener heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.clients.admin import Admin
from barnabas.clients.consumer import Consumer, ConsumerRecord, RebalanceListener, TopicPartition
from barnabas.clients.producer import Producer
from tests.support.server_fixtures import Server

SESSION_MS = 6_000
"""The shortest that brokers allow."""


class Events(RebalanceListener):
    """What a listener heard, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, set[int]]] = []

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("assigned", {each.partition for each in partitions}))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("revoked", {each.partition for each in partitions}))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("lost", {each.partition for each in partitions}))

    @property
    def moves(self) -> list[tuple[str, set[int]]]:
        """The same without what is about no partition."""
        return [event for event in self.heard if event[1]]


class Group:
    """Members of one group, polled in turn; what each read."""

    def __init__(self, server: Server, topic: str, **settings: Any) -> None:
        self.address = server.bootstrap_servers
        self.topic = topic
        self.settings: dict[str, Any] = {
            "group_id": f"group-{topic}",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": SESSION_MS,
            "retry_backoff_ms": 20,
            "metadata_max_age_ms": 500,
            **settings,
        }
        self.members: list[Consumer] = []
        self.records: list[ConsumerRecord] = []

    def member(self, listener: RebalanceListener | None = None, **settings: Any) -> Consumer:
        consumer = Consumer(self.address, **{**self.settings, **settings})
        consumer.subscribe([self.topic], listener=listener)
        self.members.append(consumer)
        return consumer

    def poll_until(self, condition: Callable[[], Any], timeout_seconds: float = 30) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            assert time.monotonic() < deadline, "the group did not get there"
            for consumer in self.members:
                self.records += consumer.poll(20)

    def partitions(self, *consumers: Consumer) -> list[set[int]]:
        return [{each.partition for each in consumer.assignment()} for consumer in consumers or self.members]

    def is_divided(self, *sizes: int) -> bool:
        return [len(consumer.assignment()) for consumer in self.members] == list(sizes) and all(
            consumer.group_metadata().generation_id >= 0 for consumer in self.members
        )

    def size(self) -> int:
        """How many members the coordinator knows."""
        group_id = self.settings["group_id"]
        with Admin(self.address) as admin:
            return len(admin.describe_groups([group_id])[group_id].members)

    def offsets(self) -> list[tuple[int, int]]:
        return sorted((record.partition, record.offset) for record in self.records)

    def close(self, consumer: Consumer) -> None:
        self.members.remove(consumer)
        consumer.close()


def produce(server: Server, topic: str, count: int, partitions: int = 4) -> list[tuple[int, int]]:
    """So many records in turn to the partitions; where they are."""
    with Producer(server.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=number % partitions) for number in range(count)]
        producer.flush()
        return sorted((each.result(10).partition, each.result(10).offset) for each in futures)
