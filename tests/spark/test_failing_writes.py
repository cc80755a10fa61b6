"""A broker that is dead or silent ends a write with one message. No Spark session: this process sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.errors import ClientTimeout
from barnabas.testing import broker
from barnabas_spark.client_cache import connections
from barnabas_spark.row_sender import send_rows
from barnabas_spark.sink_options import SinkOptions

TOPIC = "written"

pytestmark = pytest.mark.timeout(300)


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
