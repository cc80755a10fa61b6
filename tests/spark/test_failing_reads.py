"""Tasks that cannot be carried out as planned: each ends in one message with topic, partition and offset.

Planned and read in this process, as Spark does in its own; no Spark session.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, broker
from barnabas_spark.batch_reader import BarnabasReader, RangePartition, batch_reader
from barnabas_spark.client_cache import connections
from barnabas_spark.columns import default_schema
from barnabas_spark.offset_ranges import OffsetRange
from barnabas_spark.partition_reader import ReadFailed, ReadTimeout

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.timeout(300)

RECORDS = 200


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker() as process:
        yield process


@pytest.fixture
def topic(running: BrokerProcess) -> Iterator[str]:
    name = f"failing-{uuid.uuid4().hex[:8]}"
    fill(running, name)
    yield name
    connections.close()


def fill(running: BrokerProcess, name: str) -> None:
    with Admin(running.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    with Producer(running.bootstrap_servers, batch_size=0) as producer:
        for number in range(RECORDS):
            producer.send(name, b"%d" % number)
        producer.flush()


def reader_of(servers: str, topic: str, **more: str) -> BarnabasReader:
    """A reader. `more`: options, with _ for the dots in their names."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    return batch_reader(
        options | {name.replace("_", "."): value for name, value in more.items()}, default_schema(False)
    )


def planned(servers: str, topic: str) -> OffsetRange:
    """The one task of a query for all of the topic. Planned without a short timeout, however slow the machine is."""
    [task] = reader_of(servers, topic).partitions()
    assert isinstance(task, RangePartition)
    return task.value


def rows_until_end(batches: Iterator[pa.RecordBatch], rows: list[int]) -> None:
    """Read the rest, and note the sizes of its batches."""
    rows.extend(batch.num_rows for batch in batches)


def test_a_topic_that_vanishes_after_planning(running: BrokerProcess, topic: str) -> None:
    task = planned(running.bootstrap_servers, topic)
    with Admin(running.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        while topic in admin.list_topics():
            time.sleep(0.01)
    # The client asks for the topic again until then: it might only be new.
    reader = reader_of(running.bootstrap_servers, topic, kafka_default_api_timeout_ms="1000")
    with pytest.raises(ReadFailed, match=rf"partition 0 of topic '{topic}', from offset 0 to {RECORDS},"):
        rows_until_end(reader.read(RangePartition(task)), [])


def test_an_end_that_the_broker_never_reaches(running: BrokerProcess, topic: str) -> None:
    """As after a broker that announced more than it has."""
    task = planned(running.bootstrap_servers, topic)
    options = {"kafkaConsumer_pollTimeoutMs": "300", "kafka_fetch_max_wait_ms": "50"}
    reader = reader_of(running.bootstrap_servers, topic, **options)
    beyond = replace(task, end=RECORDS + 7)
    rows: list[int] = []
    said = rf"no records of {topic}-0 from offset {RECORDS} on .*the range ends at {RECORDS + 7}, the broker's log at"
    with pytest.raises(ReadTimeout, match=said):
        rows_until_end(reader.read(RangePartition(beyond)), rows)
    assert sum(rows) == RECORDS


@pytest.mark.slow
def test_a_broker_that_dies_while_a_task_reads() -> None:
    with broker() as dying:
        fill(dying, "short-lived")
        task = planned(dying.bootstrap_servers, "short-lived")
        # Long enough for the first record on any machine; the task then waits that long for the dead broker.
        timeouts = {"kafka_default_api_timeout_ms": "30000", "kafka_request_timeout_ms": "30000"}
        reader = reader_of(dying.bootstrap_servers, "short-lived", **timeouts, kafka_max_partition_fetch_bytes="100")
        batches = iter(reader.read(RangePartition(task)))
        assert next(batches).num_rows
        dying.kill()
        with pytest.raises(ReadFailed, match=rf"partition 0 of topic 'short-lived', from offset \d+ to {RECORDS},"):
            rows_until_end(batches, [])
        connections.close()
        # The broker's context expects one that stops in order.
        dying.start()
