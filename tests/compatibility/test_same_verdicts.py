"""Batches that no client should send: Apache Kafka 3.9 and ours accept and refuse the same, and store the same bytes.

`make test-all` sends 20,000 to both; `make test` sends a few hundred to ours and compares with what Kafka answered when
`kafka-3.9-verdicts.json` was recorded (`python -m tests.compatibility.record_verdicts`). Every difference is one of
NAMED_DIFFERENCES, or the test fails.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crc32c import crc32c

from barnabas.protocol.errors import ErrorCode
from tests.compatibility.hostile_batches import HostileBatches
from tests.compatibility.verdicts import (
    RECORDED,
    UNEXPECTED,
    records_of,
    unexplained,
    verdicts_of,
)
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess

SEED, COUNT = 20_261_122, 20_000


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1200)
def test_same_verdicts_and_same_bytes(tmp_path: Path) -> None:
    need_apache_kafka()
    cases = list(HostileBatches(SEED).take(COUNT))
    kafka, ours = ApacheKafka(tmp_path / "kafka"), BarnabasProcess(tmp_path / "ours", {})
    with kafka.running(), ours.running():
        theirs = verdicts_of(kafka, kafka.data_dir, cases)
        own = verdicts_of(ours, ours.data_dir, cases)
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
    with ours.running():
        own = verdicts_of(ours, ours.data_dir, cases)
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
    with ours.running():
        own = verdicts_of(ours, ours.data_dir, cases)
    stored = [verdict.stored for verdict in own if verdict.stored is not None]
    assert len(stored) > 300
    for each in stored:
        fields, *records = records_of(each)
        assert len(records) == fields[-1], "the count of the header"
