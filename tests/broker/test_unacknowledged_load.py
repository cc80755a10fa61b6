"""The benchmark of acks=0: it counts what is stored, as a broker says nothing of what it could not store."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.cells import CELLS
from benchmarks.load_generator import UnacknowledgedRun, run_produce
from benchmarks.wire_requests import BadAnswer, Connection, batch_of_count, produce_frame
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server


def test_the_cell_of_acks_0_stores_what_it_sends(server: Server, topic: str) -> None:
    (cell,) = (cell for cell in CELLS if cell.name == "p-16k-none")
    given = dict(zip(cell.arguments[::2], cell.arguments[1::2], strict=True))
    arguments = argparse.Namespace(
        host=server.host,
        port=server.port,
        topic=topic,
        trust=None,
        login=None,
        wait=False,
        seconds=60,
        value_bytes=100,
        connections=1,
        partitions=1,
        idempotent=False,
        max_total_bytes=3_000_000,
        batch_bytes=int(given["--batch-bytes"]),
        depth=int(given["--depth"]),
        acks=int(given["--acks"]),
    )
    load = run_produce(arguments)
    assert load.requests == 192, "three times 64, the first count at which 3 MB are reached"
    with RawClient(server) as client:
        assert client.end_offset(topic) == load.records
    arguments.partitions = 2
    with pytest.raises(ValueError, match="one partition"):
        run_produce(arguments)


def test_records_that_are_not_stored_are_found_out(server: Server, topic: str) -> None:
    with RawClient(server) as client:
        client.create_topic(topic)
    connection = Connection(server.host, server.port)
    damaged = bytearray(batch_of_count(1, 100))
    damaged[-1] ^= 1
    run = UnacknowledgedRun(produce_frame(topic, 0, bytes(damaged), 0), connection, topic, 2)
    with pytest.raises(BadAnswer):
        # Kafka closes the connection of a producer with acks=0 whose records it cannot store.
        run.check(run.run(limit=2, seconds=60))
    connection.close()
