"""What a broker answers to produced batches, and what it stores of them: one side of the comparison of verdicts."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
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


RECORDED = Path(__file__).with_name("kafka-3.9-verdicts.json")
UNEXPECTED = ErrorCode.UNKNOWN_SERVER_ERROR


class NamedDifference(NamedTuple):
    """What ours does otherwise, why, and which cases that explains."""

    what: str
    why: str
    explains: Callable[[HostileBatch, Verdict, Verdict], bool]


def _has(case: HostileBatch, *starts: str) -> bool:
    return any(fault.startswith(starts) for fault in case.faults)


def _is_old(case: HostileBatch) -> bool:
    return _has(case, "magic ")


def _is_stricter(case: HostileBatch, kafka: Verdict, ours: Verdict) -> bool:
    """Ours refuses what Kafka stores, or would refuse for a reason that it looks at later."""
    if _is_old(case):
        return kafka.code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD) and ours.code == ErrorCode.CORRUPT_MESSAGE
    return kafka.code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH) and ours.code == ErrorCode.INVALID_RECORD


def _has_odd_null(verdict: Verdict) -> bool:
    """Whether Kafka stored a field whose length is negative, and not -1."""
    return verdict.stored is not None and any(length < -1 for length in field_lengths(verdict.stored))


def _is_readable(verdict: Verdict) -> bool:
    """Whether a consumer that compares lengths can read what was stored."""
    try:
        return verdict.stored is not None and bool(records_of(verdict.stored))
    except CorruptRecord:
        return False


NAMED_DIFFERENCES = (
    NamedDifference(
        "An error with a name instead of UNKNOWN_SERVER_ERROR.",
        "Kafka lets an exception of a decompressor, of an enumeration or of a conversion through.",
        lambda case, kafka, ours: kafka.code == UNEXPECTED and ours.code not in (ErrorCode.NONE, UNEXPECTED),
    ),
    NamedDifference(
        "A message of magic 0 or 1 that claims up to 2 GiB is one that is cut off, and left out.",
        "Kafka's sum of sizes overflows, or it reserves so much memory, and answers UNKNOWN_SERVER_ERROR.",
        lambda case, kafka, ours: (
            _is_old(case)
            and (kafka.code, ours.code) == (UNEXPECTED, ErrorCode.NONE)
            and _has(case, "message size 2147483647", "message set cut, or bytes behind it")
        ),
    ),
    NamedDifference(
        "Nothing may follow a compressed stream.",
        "Kafka's decoders of gzip, LZ4 and snappy stop at the end of the stream; not every client's decoder does.",
        lambda case, kafka, ours: (
            _is_stricter(case, kafka, ours) and _has(case, "stream: bytes behind", "stream: second stream")
        ),
    ),
    NamedDifference(
        "A second LZ4 frame inside a message of magic 0 or 1 is read, too.",
        "The frame format allows it; Kafka's decoder stops behind the first.",
        lambda case, kafka, ours: (
            _is_old(case)
            and case.codec == Codec.LZ4
            and kafka.code == ours.code == ErrorCode.NONE
            and _has(case, "stream: second stream")
        ),
    ),
    NamedDifference(
        "A key, value or header value of a length below -1 is no null.",
        "Kafka takes every negative length for null, other clients only -1.",
        lambda case, kafka, ours: _is_stricter(case, kafka, ours) and _has_odd_null(kafka),
    ),
    NamedDifference(
        "Records in a compressed batch must be as long as they say.",
        "Kafka skips over such records without comparing lengths, stores them, and no consumer can read them, its own"
        " among them.",
        lambda case, kafka, ours: bool(case.codec) and _is_stricter(case, kafka, ours) and not _is_readable(kafka),
    ),
    NamedDifference(
        "A timestamp must fit 64 bits.",
        "Kafka's sum of base timestamp and delta wraps around; clients in other languages disagree about the result.",
        lambda case, kafka, ours: (
            _is_stricter(case, kafka, ours) and _has(case, "record timestamp_delta", "header base_timestamp")
        ),
    ),
    NamedDifference(
        "Other compressed bytes, of the same records.",
        "A message set is converted and compressed anew, and compressors differ.",
        lambda case, kafka, ours: (
            _is_old(case)
            and bool(case.codec)
            and kafka.stored is not None
            and ours.stored is not None
            and records_of(kafka.stored) == records_of(ours.stored)
        ),
    ),
)


def unexplained(
    cases: Sequence[HostileBatch], kafka: Sequence[Verdict], ours: Sequence[Verdict]
) -> tuple[Counter[str], list[str]]:
    """How often each named difference occurred, and a line for each case that none explains."""
    named: Counter[str] = Counter()
    rest = []
    for case, theirs, own in zip(cases, kafka, ours, strict=True):
        if theirs == own:
            continue
        for difference in NAMED_DIFFERENCES:
            if difference.explains(case, theirs, own):
                named[difference.what] += 1
                break
        else:
            rest.append(
                f"{case.number} {case.codec.name} v{case.version} {case.faults}: {theirs.code}, ours {own.code}"
            )
    return named, rest
