"""Batches that no client should send: Apache Kafka 3.9 and ours accept and refuse the same, and store the same bytes.

`make test-all` sends 20,000 to both; `make test` sends a few hundred to ours and compares with what Kafka answered when
`kafka-3.9-verdicts.json` was recorded (`python -m tests.compatibility.record_verdicts`). Every difference is one of
NAMED_DIFFERENCES, or the test fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c

from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from tests.compatibility.hostile_batches import HostileBatch, HostileBatches
from tests.compatibility.verdicts import Verdict, field_lengths, records_of, verdicts_of
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess

SEED, COUNT = 20_261_122, 20_000
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


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1200)
def test_same_verdicts_and_same_bytes(tmp_path: Path) -> None:
    need_apache_kafka()
    cases = list(HostileBatches(SEED).take(COUNT))
    kafka, ours = ApacheKafka(tmp_path / "kafka"), BarnabasProcess(tmp_path / "ours", {})
    try:
        kafka.start()
        ours.start()
        theirs = verdicts_of(kafka, kafka.data_dir, cases)
        own = verdicts_of(ours, ours.data_dir, cases)
    finally:
        kafka.close()
        ours.close()
    named, rest = unexplained(cases, theirs, own)
    accepted = sum(verdict.stored is not None for verdict in theirs)
    assert accepted > COUNT // 5, "else this shows little"
    print(f"{len(cases)} cases, {accepted} stored by Kafka; differences: {dict(named)}")  # noqa: T201
    assert not rest, "\n".join(rest[:50])


def test_recorded_verdicts(tmp_path: Path) -> None:
    """Ours alone, against codes and checksums of what Kafka stored."""
    recorded = json.loads(RECORDED.read_text())
    cases = list(HostileBatches(recorded["seed"]).take(len(recorded["verdicts"])))
    ours = BarnabasProcess(tmp_path / "ours", {})
    try:
        ours.start()
        own = verdicts_of(ours, ours.data_dir, cases)
    finally:
        ours.close()
    for case, (code, checksum, named), verdict in zip(cases, recorded["verdicts"], own, strict=True):
        if not named:
            stored = None if verdict.stored is None else crc32c(verdict.stored)
            assert (verdict.code, stored) == (code, checksum), case
        elif code == ErrorCode.NONE and verdict.code == ErrorCode.NONE:
            assert verdict.stored is not None, case
        else:
            assert verdict.code != UNEXPECTED, case


def test_what_ours_stores_can_be_read(tmp_path: Path) -> None:
    """No batch that was accepted keeps a consumer from those behind it."""
    cases = list(HostileBatches(7).take(2000))
    ours = BarnabasProcess(tmp_path / "ours", {})
    try:
        ours.start()
        own = verdicts_of(ours, ours.data_dir, cases)
    finally:
        ours.close()
    stored = [verdict.stored for verdict in own if verdict.stored is not None]
    assert len(stored) > 300
    for each in stored:
        fields, *records = records_of(each)
        assert len(records) == fields[-1], "the count of the header"
