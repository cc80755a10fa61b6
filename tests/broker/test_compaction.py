"""A compacted topic is cleaned while it is produced to and consumed from: nobody is disturbed, newest values stay."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.records.compression import Codec
from barnabas.records.record_batch import batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server
from tests.support.waiting import wait_until

ALWAYS_DIRTY = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "20000"}
KEYS = 7
BATCHES = 400
PER_BATCH = 5
PATIENCE_SECONDS = 60

Rows = dict[int, tuple[bytes | None, bytes | None]]


@pytest.fixture(params=MODES)
def cleaning_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server whose cleaner hardly rests."""
    server = make_server(request.param, tmp_path / "server", log_cleaner_backoff_ms="20")
    try:
        server.start()
        yield server
    finally:
        server.close()


def keyed_batch(records: Sequence[tuple[bytes, bytes | None]], codec: Codec = Codec.NONE) -> bytes:
    builder = RecordBatchBuilder(codec)
    for key, value in records:
        builder.append(int(time.time() * 1000), key, value)
    return builder.build()


def read_all(client: RawClient, topic: str) -> Rows:
    """Every record there is, read as a consumer does from the beginning on."""
    found: Rows = {}
    offset, end = 0, client.end_offset(topic)
    while offset < end:
        answer = client.fetch(topic, offset, max_bytes=100_000)
        assert answer.error_code == ErrorCode.NONE
        for batch in batches(record_bytes(answer)):
            batch.check()
            assert batch.last_offset >= offset
            offset = batch.next_offset
            found |= {record.offset: (record.key, record.value) for record in batch.records()}
    return found


def test_cleaned_under_load(cleaning_server: Server) -> None:
    produced: Rows = {}
    done = threading.Event()

    def produce() -> None:
        try:
            with RawClient(cleaning_server) as client:
                for number in range(BATCHES):
                    rows = [(b"key-%d" % ((number + each) % KEYS), b"%d" % number * 20) for each in range(PER_BATCH)]
                    codec = list(Codec)[number % 5]
                    result = client.produce("table", keyed_batch(rows, codec))
                    assert result.error_code == ErrorCode.NONE
                    for each, row in enumerate(rows):
                        produced[result.base_offset + each] = row
        finally:
            done.set()

    with RawClient(cleaning_server) as client:
        client.create_topic("table", 1, ALWAYS_DIRTY)
        producer = threading.Thread(target=produce)
        producer.start()
        while not done.is_set():
            found = read_all(client, "table")
            assert list(found) == sorted(found)
            assert all(produced.get(offset, row) == row for offset, row in found.items())
        producer.join()
        assert len(produced) == BATCHES * PER_BATCH
        found = wait_until(
            lambda: read_all(client, "table"), PATIENCE_SECONDS, lambda found: len(found) <= len(produced) // 2
        )
    newest = {key: offset for offset, (key, _) in sorted(produced.items())}
    assert set(newest.values()) <= set(found)
    assert found.items() <= produced.items()


def test_a_tombstone_removes_its_key_and_then_itself(cleaning_server: Server) -> None:
    with RawClient(cleaning_server) as client:
        client.create_topic("table", 1, ALWAYS_DIRTY | {"delete.retention.ms": "0"})

        def fill() -> None:
            """More than a segment of other keys: what lies before can be cleaned."""
            for _ in range(30):
                assert not client.produce("table", keyed_batch([(b"filler", b"v" * 1000)])).error_code

        assert not client.produce("table", keyed_batch([(b"a", b"1"), (b"b", b"1")])).error_code
        assert not client.produce("table", keyed_batch([(b"a", None)])).error_code
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(key == b"a" for key, _ in read_all(client, "table").values()):
            assert time.monotonic() < deadline
            fill()
        assert read_all(client, "table")[1] == (b"b", b"1")


def children(server: Server) -> list[int]:
    """Processes that the server has started."""
    tasks = Path(f"/proc/{server.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def is_running(pid: int) -> bool:
    """Also of a process whose parent is gone, and which nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka's cleaner is no process")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the cleaner's process")
def test_a_cleaning_without_end_holds_up_nobody(tmp_path: Path) -> None:
    server = make_server(
        "inline", tmp_path / "server", log_cleaner_io_max_bytes_per_second="1", log_cleaner_backoff_ms="20"
    )
    data = keyed_batch([(b"key-%d" % number, b"v" * 60) for number in range(10_000)])

    def make_dirty(client: RawClient, topic: str) -> int:
        """So much that the throttle stops it; returns the process."""
        client.create_topic(topic, 1, ALWAYS_DIRTY | {"segment.bytes": "1000000"})
        for _ in range(20):
            assert not client.produce(topic, data).error_code
        wait_until(
            lambda: f"Beginning cleaning of log {topic}-0" in server.log_text() and children(server), PATIENCE_SECONDS
        )
        (child,) = children(server)
        return child

    try:
        server.start()
        with RawClient(server) as client:
            child = make_dirty(client, "deleted")
            client.call(DeleteTopicsRequest([], ["deleted"], 10_000), 5, DeleteTopicsResponse)
            wait_until(lambda: not children(server), PATIENCE_SECONDS)  # nothing else is dirty
            assert not is_running(child)
            child = make_dirty(client, "stopped")
        assert server.stop() == 0
        assert not is_running(child)
        server.start()
        wait_until(lambda: children(server), PATIENCE_SECONDS)
        (child,) = children(server)
        server.kill()
        wait_until(lambda: not is_running(child), PATIENCE_SECONDS)
    finally:
        server.close()
