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
from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.errors import Unreachable
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerProcess, broker
from barnabas_spark.columns import default_schema
from barnabas_spark.options.source_options import DataLoss
from barnabas_spark.reading.batch_reader import BarnabasReader, batch_reader
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.reading.offset_ranges import OffsetRange, RangePartition
from barnabas_spark.reading.partition_reader import ReadFailed, ReadTimeout
from barnabas_spark.reading.stream_reader import BarnabasStreamReader
from tests.support.lying_relay import LyingRelay

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.timeout(300)

RECORDS = 200
LIED_ABOUT = "lied-about"
FROM_THE_FIRST = '{"lied-about": {"0": 0}}'
"""A position that needs no question to the broker."""


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker() as process:
        yield process


@pytest.fixture
def topic(running: BrokerProcess) -> Iterator[str]:
    name = f"failing-{uuid.uuid4().hex[:8]}"
    fill(running.bootstrap_servers, name)
    yield name
    connections.close()


def fill(servers: str, name: str) -> None:
    with Admin(servers) as admin:
        if name not in admin.list_topics():
            admin.create_topics([NewTopic(name, 1, 1)])
    with Producer(servers, batch_size=0) as producer:
        for number in range(RECORDS):
            producer.send(name, b"%d" % number)
        producer.flush()


def reader_of(servers: str, topic: str, **more: str) -> BarnabasReader:
    """A reader. `more`: options, with _ for the dots in their names."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    return batch_reader(
        options | {name.replace("_", "."): value for name, value in more.items()}, default_schema(False)
    )


def test_without_a_broker_a_query_ends_soon_and_names_the_address() -> None:
    # No other option ends it in the time of this test.
    patient = {"kafka_request_timeout_ms": "900000", "kafka_default_api_timeout_ms": "900000"}
    reader = reader_of("127.0.0.1:9", "t", kafka_bootstrap_timeout_ms="50", **patient)
    with pytest.raises(Unreachable, match=r"No broker can be reached \(127\.0\.0\.1:9: connection refused\)"):
        reader.partitions()
    connections.close()


def planned(servers: str, topic: str) -> OffsetRange:
    """The one task of a query for all of the topic. Planned without a short timeout, however slow the machine is."""
    [task] = reader_of(servers, topic).partitions()
    assert isinstance(task, RangePartition)
    [each] = task.value
    return each


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
        rows_until_end(reader.read(RangePartition((task,))), [])


def test_an_end_that_the_broker_never_reaches(running: BrokerProcess, topic: str) -> None:
    """As after a broker that announced more than it has."""
    task = planned(running.bootstrap_servers, topic)
    options = {"kafkaConsumer_pollTimeoutMs": "300", "kafka_fetch_max_wait_ms": "50"}
    reader = reader_of(running.bootstrap_servers, topic, **options)
    beyond = replace(task, end=RECORDS + 7)
    rows: list[int] = []
    said = rf"no records of {topic}-0 from offset {RECORDS} on .*the range ends at {RECORDS + 7}, the broker's log at"
    with pytest.raises(ReadTimeout, match=said):
        rows_until_end(reader.read(RangePartition((beyond,))), rows)
    assert sum(rows) == RECORDS


@pytest.fixture
def liar() -> Iterator[LyingRelay]:
    """A broker that lies about the ends of its partitions; the topic is filled."""
    relay = LyingRelay()
    try:
        with broker(advertised_listeners=f"PLAINTEXT://{relay.bootstrap_servers}") as behind:
            relay.relay_to(int(behind.bootstrap_servers.rpartition(":")[2]))
            fill(relay.bootstrap_servers, LIED_ABOUT)
            yield relay
            connections.close()
    finally:
        relay.close()


def test_a_high_watermark_beyond_the_end(liar: LyingRelay) -> None:
    """The tasks are planned up to the false end. They give all that is there, and then say what is missing."""
    liar.surplus = 7
    options = {"kafkaConsumer_pollTimeoutMs": "300", "kafka_fetch_max_wait_ms": "50", "startingOffsets": FROM_THE_FIRST}
    reader = reader_of(liar.bootstrap_servers, LIED_ABOUT, **options)
    [task] = reader.partitions()
    assert liar.lies
    rows: list[int] = []
    said = rf"no records of {LIED_ABOUT}-0 from offset {RECORDS} on .*the range ends at {RECORDS + 7}, .* at {RECORDS}"
    with pytest.raises(ReadTimeout, match=said):
        rows_until_end(reader.read(task), rows)
    assert sum(rows) == RECORDS


def test_a_high_watermark_that_goes_back(liar: LyingRelay) -> None:
    """A stream that has read further says so, and goes on when the broker knows its end again."""
    options = {"kafka.bootstrap.servers": liar.bootstrap_servers, "subscribe": LIED_ABOUT}
    options |= {"startingOffsets": FROM_THE_FIRST, "fetchOffset.retryIntervalMs": "1"}
    reader = BarnabasStreamReader(options, default_schema(False))
    start = reader.initialOffset()
    read = reader.latestOffset(start, ReadAllAvailable())
    # The first micro-batch has its start beside its end.
    assert read == {LIED_ABOUT: {"0": RECORDS}, f"(start) {LIED_ABOUT}": {"0": 0}}
    liar.surplus = -7
    false_end = reader.latestOffset(read, ReadAllAvailable())
    # It was asked for three times, as fetchOffset.numRetries says.
    assert (false_end, liar.lies) == ({LIED_ABOUT: {"0": RECORDS - 7}}, 3)
    said = rf"{LIED_ABOUT}-0 was read up to offset {RECORDS}, but now ends at {RECORDS - 7}"
    with pytest.raises(DataLoss, match=said):
        reader.partitions(read, false_end)
    liar.surplus = 0
    fill(liar.bootstrap_servers, LIED_ABOUT)
    end = reader.latestOffset(read, ReadAllAvailable())
    [task] = reader.partitions(read, end)
    rows: list[int] = []
    rows_until_end(reader.read(task), rows)
    assert sum(rows) == RECORDS


@pytest.mark.slow
def test_a_broker_that_dies_while_a_task_reads() -> None:
    with broker() as dying:
        fill(dying.bootstrap_servers, "short-lived")
        task = planned(dying.bootstrap_servers, "short-lived")
        # Long enough for the first record on any machine; the task then waits that long for the dead broker.
        timeouts = {"kafka_default_api_timeout_ms": "30000", "kafka_request_timeout_ms": "30000"}
        reader = reader_of(dying.bootstrap_servers, "short-lived", **timeouts, kafka_max_partition_fetch_bytes="100")
        batches = iter(reader.read(RangePartition((task,))))
        assert next(batches).num_rows
        dying.kill()
        with pytest.raises(ReadFailed, match=rf"partition 0 of topic 'short-lived', from offset \d+ to {RECORDS},"):
            rows_until_end(batches, [])
        connections.close()
        # The broker's context expects one that stops in order.
        dying.start()
