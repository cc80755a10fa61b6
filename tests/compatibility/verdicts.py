"""What a broker answers to produced batches, and what it stores of them: one side of the comparison of verdicts."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from barnabas.records.record_batch import RecordBatch
from barnabas.records.v2.layout import decode_zigzag
from tests.compatibility.hostile_batches import HostileBatch
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.server_process import ServerProcess

TOPIC = "hostile"
TOPIC_SETTINGS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
PLACE_BYTES = 16
"""Base offset, length and leader epoch are the leader's; the rest must be the same."""
CLOSED = -1000
"""Instead of an error code: the broker closed the connection."""


class Verdict(NamedTuple):
    """code: of the answer, or CLOSED. stored: the batch as it lies in the log, from its magic on; None if it was
    refused."""

    code: int
    stored: bytes | None


def verdicts_of(server: ServerProcess, data_dir: Path, cases: Iterable[HostileBatch]) -> list[Verdict]:
    """Produce every case to a topic of a running broker; its verdicts, in order."""
    answers: list[tuple[int, int]] = []
    client = RawClient(server)
    try:
        client.create_topic(TOPIC, configs=TOPIC_SETTINGS)
        for case in cases:
            try:
                result = client.produce(TOPIC, case.data, version=case.version, acks=1)
                answers.append((int(result.error_code), result.base_offset))
            except ConnectionClosed:
                answers.append((CLOSED, -1))
                client.close()
                client = RawClient(server)
    finally:
        client.close()
    stored = _stored_batches(data_dir / f"{TOPIC}-0")
    return [Verdict(code, stored.get(offset) if code == 0 and offset >= 0 else None) for code, offset in answers]


def _stored_batches(directory: Path) -> dict[int, bytes]:
    """All batches of a log by their base offset, from the magic on."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            offset, length = struct.unpack_from(">qi", data, position)
            end = position + 12 + length
            found[offset] = data[position + PLACE_BYTES : end]
            position = end
    return found


def batch_of(stored: bytes) -> RecordBatch:
    """A stored batch with a place before it."""
    return RecordBatch(struct.pack(">qii", 0, len(stored) + PLACE_BYTES - 12, 0) + stored)


def records_of(stored: bytes) -> list[tuple[object, ...]]:
    """What a stored batch says: fields of its header (the last is the count), then its records."""
    batch = batch_of(stored)
    header = (batch.attributes, batch.last_offset_delta, batch.max_timestamp, batch.producer_id, batch.count)
    return [header, *batch.records()]


def field_lengths(stored: bytes) -> Iterator[int]:
    """The lengths of keys, values and headers' fields, read as Kafka does: a negative one is followed by no bytes."""
    batch = batch_of(stored)
    body = batch.decompressed_records()
    position = 0

    def number() -> int:
        nonlocal position
        value, position = decode_zigzag(body, position)
        return value

    def field() -> int:
        nonlocal position
        length = number()
        position += max(length, 0)
        return length

    for _ in range(batch.count):
        number()
        position += 1
        number(), number()
        yield from (field(), field())
        for _ in range(number()):
            yield from (field(), field())
