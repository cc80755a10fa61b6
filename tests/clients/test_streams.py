"""Kafka Streams counts words on our broker, at least once and exactly once, while its instances come, go and crash."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from barnabas.clients.admin import Admin, FeatureUpdate
from barnabas.protocol.errors import ErrorCode
from barnabas.records.memory_records import any_batches
from tests.clients.streams_application import AT_LEAST_ONCE, EXACTLY_ONCE, POMS, StreamsApplication
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
EXACTLY_ONCE_SECONDS = 300
"""A transaction of a killed instance is open, and hides what lies behind it, until it is timed out."""
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

    def start(
        self, stack: ExitStack, release: str, directory: Path, guarantee: str = AT_LEAST_ONCE
    ) -> StreamsApplication:
        arguments = (self.server.bootstrap_servers, self.application_id, self.input, self.output)
        application = StreamsApplication(release, directory, arguments, guarantee)
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

    def await_committed_counts(self) -> dict[str, list[int]]:
        """Return every count of each word, when the newest ones are right to a reader of committed records."""
        found: dict[str, list[int]] = {}
        settings = {
            "bootstrap.servers": self.server.bootstrap_servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        deadline = time.monotonic() + EXACTLY_ONCE_SECONDS
        with closing(ConfluentConsumer(settings)) as consumer:
            consumer.assign([ConfluentPartition(self.output, 0, 0)])
            while {word: counts[-1] for word, counts in found.items()} != self.written:
                assert time.monotonic() < deadline, (found, self.written)
                for message in consumer.consume(500, 0.5):
                    key, value = message.key(), message.value()
                    if message.error() is None and key is not None and value is not None:
                        found.setdefault(key.decode(), []).append(struct.unpack(">q", value)[0])
        return found

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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("transaction_version", [0, 2])
def test_words_are_counted_exactly_once_while_instances_and_the_broker_are_killed(
    topic: str, release: str, transaction_version: int, stack: ExitStack, tmp_path: Path
) -> None:
    properties = {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    broker = BarnabasProcess(tmp_path / "server", SERVER_PROPERTIES | properties, port=free_port())
    stack.callback(broker.close)
    broker.start()
    if transaction_version:
        with Admin(broker.bootstrap_servers) as admin:
            admin.update_features({"transaction.version": FeatureUpdate(transaction_version)})
    words = WordCounts(broker, topic)
    words.write()
    first = words.start(stack, release, tmp_path / "first", EXACTLY_ONCE)
    second = words.start(stack, release, tmp_path / "second", EXACTLY_ONCE)
    words.await_committed_counts()
    for _ in range(5):
        words.write()
        time.sleep(0.1)
    first.kill()
    words.write()
    words.await_committed_counts()
    third = words.start(stack, release, tmp_path / "third", EXACTLY_ONCE)
    words.write()
    broker.kill()
    broker.start()
    words.write()
    counts = words.await_committed_counts()
    for word, counted in counts.items():
        # A line that is counted twice, or whose count is written twice, shows as a count that does not rise.
        assert counted == sorted(set(counted)), word
    second.stop()
    third.stop()
    assert words.await_committed_counts() == counts
