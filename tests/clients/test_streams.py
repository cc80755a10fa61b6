"""Kafka Streams counts words on our broker, at least once, while its instances come, go and crash."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.records.memory_records import any_batches
from tests.clients.streams_application import POMS, StreamsApplication
from tests.support.apache_kafka import need_apache_kafka, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.maven import counterparts_needed, fetch_jars
from tests.support.raw_client import RawClient, make_batch, record_bytes
from tests.support.server_fixtures import SERVER_PROPERTIES, Server
from tests.support.server_process import free_port

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

WORDS = tuple(f"word-{number}" for number in range(50))
PARTITIONS, LINES, WORDS_A_LINE = 4, 500, 8
PATIENCE_SECONDS = 60
RESET_COMMAND = "org.apache.kafka.tools.StreamsResetter"


@pytest.fixture(params=POMS)
def release(request: pytest.FixtureRequest) -> str:
    need_apache_kafka()
    with counterparts_needed():
        fetch_jars(POMS[request.param])
    chosen: str = request.param
    return chosen


class WordCounts:
    """Writes lines of words, knows how often each was written, and reads what the application says."""

    def __init__(self, server: Server, topic: str) -> None:
        self.server = server
        self.input, self.output = topic, f"{topic}-counts"
        self.application_id = f"{topic}-application"
        self.written: Counter[str] = Counter()
        self._random = random.Random(7)
        with RawClient(server) as client:
            client.create_topic(self.input, PARTITIONS)
            client.create_topic(self.output, 1)

    def start(self, stack: ExitStack, release: str, directory: Path) -> StreamsApplication:
        arguments = (self.server.bootstrap_servers, self.application_id, self.input, self.output)
        application = StreamsApplication(release, directory, arguments)
        stack.callback(application.kill)
        application.await_running()
        return application

    def write(self) -> None:
        """Some lines more, in all partitions."""
        with RawClient(self.server) as client:
            for partition in range(PARTITIONS):
                lines = [self._random.choices(WORDS, k=WORDS_A_LINE) for _ in range(LINES // PARTITIONS)]
                batch = make_batch(" ".join(line).encode() for line in lines)
                assert client.produce(self.input, batch, partition=partition).error_code == ErrorCode.NONE
                for line in lines:
                    self.written.update(line)

    def await_counts(self, are_right: Callable[[dict[str, int]], bool]) -> None:
        """Return when the newest count of each word is right."""
        counts: dict[str, int] = {}
        offset = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        with RawClient(self.server) as client:
            while not are_right(counts):
                assert time.monotonic() < deadline, (counts, self.written)
                answer = client.fetch(self.output, offset)
                for batch in any_batches(record_bytes(answer)):
                    for record in batch.records():
                        counts[bytes(record.key or b"").decode()] = struct.unpack(">q", record.value or b"")[0]
                    offset = batch.next_offset
                time.sleep(0.05)

    def are_exact(self, counts: dict[str, int]) -> bool:
        return counts == self.written

    def none_is_lost(self, counts: dict[str, int]) -> bool:
        return all(counts.get(word, 0) >= count for word, count in self.written.items())


@pytest.fixture
def words(server: Server, topic: str) -> WordCounts:
    return WordCounts(server, topic)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_words_are_counted(words: WordCounts, release: str, stack: ExitStack, tmp_path: Path) -> None:
    words.write()
    first = words.start(stack, release, tmp_path / "first")
    words.await_counts(words.are_exact)
    second = words.start(stack, release, tmp_path / "second")
    words.write()
    words.await_counts(words.are_exact)
    first.stop()  # the second takes over, and makes its counts from the changelog
    words.write()
    words.await_counts(words.are_exact)
    second.kill()
    words.write()
    third = words.start(stack, release, tmp_path / "third")
    words.await_counts(words.none_is_lost)
    third.stop()


def test_the_broker_crashes(topic: str, release: str, stack: ExitStack, tmp_path: Path) -> None:
    broker = BarnabasProcess(tmp_path / "server", SERVER_PROPERTIES, port=free_port())
    stack.callback(broker.close)
    broker.start()
    words = WordCounts(broker, topic)
    words.write()
    first = words.start(stack, release, tmp_path / "first")
    words.await_counts(words.none_is_lost)
    words.write()
    broker.kill()
    broker.start()
    words.write()
    words.await_counts(words.none_is_lost)
    first.stop()


def test_an_application_that_is_reset_begins_anew(
    words: WordCounts, release: str, stack: ExitStack, tmp_path: Path
) -> None:
    words.write()
    words.start(stack, release, tmp_path / "first").stop()
    place = ("--bootstrap-server", words.server.bootstrap_servers)
    what = ("--application-id", words.application_id, "--input-topics", words.input)
    said = run_tool(RESET_COMMAND, *place, *what, "--force", directory=tmp_path)
    assert "Done." in said
    assert f"{words.application_id}-counts-changelog" in said
    with RawClient(words.server) as client:
        begin = client.end_offset(words.output)
    words.write()
    again = words.start(stack, release, tmp_path / "again")
    words.await_counts(words.are_exact)
    with RawClient(words.server) as client:
        assert client.end_offset(words.output) > begin
    again.stop()
