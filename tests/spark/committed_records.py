"""Reads what a reader of committed records sees of a topic, by a client that has nothing to do with Spark."""

from __future__ import annotations

from barnabas.clients.consumer import Consumer, ConsumerRecord
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.transaction_markers import wait_for_markers


def committed_records(bootstrap_servers: str, topic: str, partitions: int) -> list[ConsumerRecord]:
    """The records of no transaction, and of committed ones, once no transaction is open."""
    assignment = [TopicPartition(topic, partition) for partition in range(partitions)]
    wait_for_markers(bootstrap_servers, assignment)
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign(assignment)
        ends = consumer.end_offsets(assignment)
        # Markers and aborted records have offsets too, so the positions tell when all is read, not the count.
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found.extend(consumer.poll(1_000))
    return found


def committed_values(bootstrap_servers: str, topic: str, partitions: int) -> list[bytes | None]:
    """The values, sorted."""
    return sorted((record.value for record in committed_records(bootstrap_servers, topic, partitions)), key=repr)
