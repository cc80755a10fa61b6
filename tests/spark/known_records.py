"""Records with everything a record can have, produced so that their places are known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame

from barnabas.clients.producer import Producer

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = time.time_ns() // 1_000_000 - 3_600_000
"""An hour ago: older records would be deleted by retention while the tests run."""


class KnownRecord(NamedTuple):
    """A row of the source, as Spark hands it out: bytes, milliseconds, headers as pairs."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def made_up(index: int) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """Key, value and headers of the record number `index`: NULLs, empty and long ones among them."""
    key = None if index % 5 == 0 else f"key-{index}".encode() * (index % 4)
    value = None if index % 7 == 3 else b"" if index % 7 == 4 else f"value {index} ".encode() * (index % 30)
    headers: tuple[tuple[str, bytes | None], ...] = (("trace", f"{index}".encode()), ("ümlaut", None))[: index % 3]
    return key, value, headers


def produce(
    bootstrap_servers: str, topic: str, partitions: int, indices: Iterable[int], codecs: Sequence[str] = CODECS
) -> list[KnownRecord]:
    """Produce the records, one codec after the other, spread over the partitions."""
    sent: list[KnownRecord] = []
    numbers = list(indices)
    for turn, codec in enumerate(codecs):
        with Producer(bootstrap_servers, linger_ms=5, compression_type=codec, batch_size=2_000) as producer:
            pending = []
            for index in numbers[turn :: len(codecs)]:
                key, value, headers = made_up(index)
                timestamp = FIRST_TIMESTAMP_MS + index
                future = producer.send(topic, value, key, headers, index % partitions, timestamp)
                pending.append((future, key, value, headers, index % partitions, timestamp))
            producer.flush()
            for future, key, value, headers, partition, timestamp in pending:
                offset = future.result(30).offset
                sent.append(KnownRecord(key, value, topic, partition, offset, timestamp, headers))
    return sorted(sent, key=lambda record: (record.partition, record.offset))


def rows(frame: DataFrame) -> list[KnownRecord]:
    """The rows in the form of known records, in order."""
    collected = [
        KnownRecord(
            as_bytes(row.key),
            as_bytes(row.value),
            row.topic,
            row.partition,
            row.offset,
            row.at,
            tuple((header.key, as_bytes(header.value)) for header in row.headers),
        )
        for row in frame.selectExpr("*", "unix_millis(timestamp) at").collect()
    ]
    return sorted(collected, key=lambda record: (record.partition, record.offset))


def as_bytes(field: bytearray | None) -> bytes | None:
    return None if field is None else bytes(field)


def write(frame: DataFrame, bootstrap_servers: str, **options: str) -> None:
    writer = frame.write.format("barnabas").mode("append").option("kafka.bootstrap.servers", bootstrap_servers)
    writer.options(**options).save()
