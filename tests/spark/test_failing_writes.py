"""A broker that is dead or silent ends a write with one message. No Spark session: this process sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.errors import ClientTimeout, Unreachable
from barnabas.testing import broker
from barnabas_spark.options.sink_options import SinkOptions
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.writing import row_sender, stream_writer
from barnabas_spark.writing.row_sender import send_rows
from barnabas_spark.writing.stream_writer import BarnabasStreamWriter
from barnabas_spark.writing.transactional_sender import send_rows_once

TOPIC = "written"

pytestmark = pytest.mark.timeout(300)


NOWHERE = {
    "kafka.bootstrap.servers": "127.0.0.1:9",
    "topic": TOPIC,
    "kafka.bootstrap.timeout.ms": "50",
    "kafka.max.block.ms": "900000",
}
ROWS = pa.record_batch({"value": pa.array([b"x"], pa.binary())})


def test_without_a_broker_a_write_ends_soon_and_names_the_address() -> None:
    with pytest.raises(Unreachable, match=r"No broker can be reached \(127\.0\.0\.1:9: connection refused\)"):
        send_rows(iter([ROWS]), SinkOptions.parse(NOWHERE))
    once = SinkOptions.parse(NOWHERE | {"txnAppId": "a", "txnVersion": "1"})
    assert once.write_identity is not None
    with pytest.raises(Unreachable, match=r"No broker can be reached \(127\.0\.0\.1:9: connection refused\)"):
        send_rows_once(iter([ROWS]), once, once.write_identity)


@pytest.mark.parametrize(("batch", "patience_ms"), [("0", 50), ("1", 900_000), (None, 50)])
def test_a_query_that_has_written_waits_for_a_broker_that_restarts(
    monkeypatch: pytest.MonkeyPatch, batch: str | None, patience_ms: int
) -> None:
    asked: list[SinkOptions] = []
    context = SimpleNamespace(getLocalProperty=lambda name: batch if name.endswith("batchId") else "query")
    monkeypatch.setattr(stream_writer, "TaskContext", SimpleNamespace(get=lambda: context))
    note: Any = lambda _rows, options, *_identity: asked.append(options)  # noqa: E731
    monkeypatch.setattr(row_sender, "send_rows", note)
    writer = BarnabasStreamWriter(NOWHERE, StructType().add("value", "binary"))
    writer.write(iter([ROWS]))
    assert [options.bootstrap_timeout_ms for options in asked] == [patience_ms]


def test_a_broker_that_does_not_answer_ends_a_write_after_max_block_ms() -> None:
    """The connection is made, and no request is answered. Every other timeout is longer than the test may run."""
    rows = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = SinkOptions.parse(
            {
                "kafka.bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}",
                "topic": TOPIC,
                "kafka.delivery.timeout.ms": "900000",
                "kafka.request.timeout.ms": "900000",
                "kafka.max.block.ms": "300",
            }
        )
        with pytest.raises(ClientTimeout, match=rf"{TOPIC} .* 300 ms"):
            send_rows(iter([rows]), options)


@pytest.mark.slow
@pytest.mark.parametrize("batches_before", [0, 1])
def test_a_broker_that_dies_while_a_task_writes(batches_before: int) -> None:
    rows = pa.record_batch({"value": pa.array([b"x"] * 10, pa.binary())})
    with broker() as dying:
        with Admin(dying.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        options = SinkOptions.parse(
            {
                "kafka.bootstrap.servers": dying.bootstrap_servers,
                "topic": TOPIC,
                "kafka.delivery.timeout.ms": "2000",
                "kafka.request.timeout.ms": "1000",
            }
        )

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(batches_before):
                yield rows
            # The producer knows the topic by now, so that it is the delivery which fails.
            assert connections.producer(options).partitions_for(TOPIC)
            dying.kill()
            yield rows

        with pytest.raises(ClientTimeout, match=rf"10 record\(s\) for {TOPIC}-0"):
            send_rows(batches(), options)
        # The broker's context expects one that stops in order.
        dying.start()
