"""Apache Kafka's console producer and consumer, as its users call them. They start a JVM each; marker `java`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.clients.client_driver import ReadRecord, SentRecord
from tests.support.apache_kafka import CONSOLE_CONSUMER, CONSOLE_PRODUCER, TOPIC_COMMAND, run_tool


class JavaConsoleDriver:
    """Default settings: acks=all, idempotence on. The producer cannot choose a partition, so the topic has one."""

    name = "java-console"
    partitions = 1
    carries_bytes = False
    headers_per_record = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        place = ["--bootstrap-server", bootstrap_servers, "--topic", topic]
        size = ["--partitions", str(partitions), "--replication-factor", "1"]
        run_tool(TOPIC_COMMAND, *place, "--create", *size, directory=self._directory)

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        lines = "".join(f"{_join(record)}\t{_text(record.key)}\t{record.value.decode()}\n" for record in records)
        place = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--compression-codec", codec]
        form = ["--property", "parse.key=true", "--property", "parse.headers=true"]
        run_tool(CONSOLE_PRODUCER, *place, *form, directory=self._directory, input_text=lines)

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterator[ReadRecord]:
        ((partition, offset),) = offsets.items()
        place = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--partition", str(partition)]
        amount = ["--offset", str(offset), "--max-messages", str(count)]
        printed = ["offset", "partition", "headers", "key"]
        form = [argument for what in printed for argument in ("--property", f"print.{what}=true")]
        output = run_tool(CONSOLE_CONSUMER, *place, *amount, *form, directory=self._directory)
        return map(_parse, output.splitlines())


def _text(data: bytes | None) -> str:
    return (data or b"").decode()


def _join(record: SentRecord) -> str:
    return ",".join(f"{name}:{value.decode()}" for name, value in record.headers)


def _parse(line: str) -> ReadRecord:
    """`Partition:0 Offset:5 <headers> <key> <value>`, tabs between."""
    partition, offset, headers, key, value = line.split("\t", 4)
    pairs = (pair.split(":", 1) for pair in headers.split(","))
    return ReadRecord(
        int(partition.removeprefix("Partition:")),
        int(offset.removeprefix("Offset:")),
        key.encode(),
        value.encode(),
        tuple((name, text.encode()) for name, text in pairs),
    )
