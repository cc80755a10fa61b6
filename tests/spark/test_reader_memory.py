"""A task reads a partition that is much larger than the memory it takes. Read in this process, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.testing import broker
from barnabas_spark.columns import default_schema
from barnabas_spark.reading.batch_reader import batch_reader
from barnabas_spark.reading.client_cache import connections
from benchmarks.process_usage import peak_resident_mib, reset_peak, resident_mib

VALUE = b"0123456789abcdef" * 64
ROWS = 256 * 1024
"""256 MiB."""
WARM_ROWS = ROWS // 16
GROWTH_MIB = 64
"""A quarter of the partition. Two fetches of 4 MiB, their batches and what Arrow keeps take less than half of it."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_the_memory_of_a_task_does_not_grow_with_the_partition() -> None:
    with broker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("large", 1, 1)])
        with Producer(running.bootstrap_servers) as producer:
            for _ in range(16):
                producer.send_table("large", pa.table({"value": [VALUE] * (ROWS // 16)})).result(300)
        try:
            assert _bytes_read(running.bootstrap_servers, WARM_ROWS) == WARM_ROWS * len(VALUE)
            before = resident_mib(os.getpid())
            reset_peak(os.getpid())
            assert _bytes_read(running.bootstrap_servers, ROWS) == ROWS * len(VALUE)
            assert peak_resident_mib(os.getpid()) - before < GROWTH_MIB
        finally:
            connections.close()


def _bytes_read(servers: str, rows: int) -> int:
    """Read the first rows of the partition in one task, as a Python worker does, and count the bytes of the values."""
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "large",
        "endingOffsets": f'{{"large": {{"0": {rows}}}}}',
    }
    reader = batch_reader(options, default_schema(False))
    [task] = reader.partitions()
    return sum(pc.sum(pc.binary_length(batch["value"])).as_py() for batch in reader.read(task))
