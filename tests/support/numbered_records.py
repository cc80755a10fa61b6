"""Records with the values 0, 1, 2, ... that a thread produces while a test changes the cluster, and their reading back.

Used by the tests of clusters, on their own thread; `producing` has a thread of its own, which ends with its block.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.waiting import wait_until

SECONDS = 120


eventually = partial(wait_until, seconds=SECONDS)


@contextmanager
def producing(bootstrap_servers: str, topic: str) -> Iterator[list[bytes]]:
    """Produce numbered values to partition 0 meanwhile; the list has those that were acknowledged, in order."""
    acknowledged: list[bytes] = []
    errors: list[BaseException] = []
    end = threading.Event()

    def produce() -> None:
        try:
            with Producer(bootstrap_servers, acks="all") as producer:
                while not end.wait(0.005):
                    value = b"%d" % len(acknowledged)
                    producer.send(topic, value, partition=0).result(SECONDS)
                    acknowledged.append(value)
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        eventually(lambda: acknowledged or errors)
        yield acknowledged
    finally:
        end.set()
        thread.join()
    assert not errors


def values_of(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    """Read the first `count` values of partition 0."""
    with Consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < count:
            assert time.monotonic() < deadline
            values += [record.value for record in consumer.poll(timeout_ms=1_000)]
        return values
