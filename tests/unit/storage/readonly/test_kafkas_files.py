"""A directory of Apache Kafka 3.9's, read without a broker: the same records, bounds and times as Kafka answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.records.record_batch import RecordBatch
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.readonly.log_directories import ReadableLog, ReadonlyDirectories, offset_of_timestamp
from barnabas.storage.readonly.log_split import SplitBatches, split_log, with_aborted
from barnabas.storage.readonly.log_transactions import aborted_ranges, last_stable_offset
from tests.compatibility.golden import ANSWERS, unpack

FILES = OperatingSystemFiles(read_only=True)
ENTRIES_OF_PREALLOCATION = 10_000
LOGS = ("orders 0", "orders 1", "compacted 0", "transactions 0", "__transaction_state 0")


@pytest.fixture(scope="module", params=["stopped", "killed"])
def data_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's directory; "killed": no mark of a clean stop, garbage behind the last batch, preallocated indexes."""
    path = unpack(tmp_path_factory.mktemp("kafka"))
    if request.param == "killed":
        (path / ".kafka_cleanshutdown").unlink()
        for directory in (each for each in path.iterdir() if each.is_dir()):
            newest = max(directory.glob("*.log"))
            newest.write_bytes(newest.read_bytes() + b"\0" * 40 + b"torn" * 30)
            for suffix, entry in ((".index", 8), (".timeindex", 12)):
                index = newest.with_suffix(suffix)
                index.write_bytes(index.read_bytes() + bytes(entry * ENTRIES_OF_PREALLOCATION))
    return path


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return json.loads(ANSWERS.read_text())  # type: ignore[no-any-return]


def readable(data_dir: Path, log: str, *, to_log_end: bool = False) -> ReadableLog:
    topic, partition = log.split()
    directories = ReadonlyDirectories([str(data_dir)], FILES)
    return directories.readable(directories.logs([topic])[int(partition)], to_log_end=to_log_end)


def records(log: ReadableLog, *, split_bytes: int = 300, committed: bool = False) -> list[Any]:
    end = last_stable_offset(log) if committed else log.end
    aborted = aborted_ranges(log.log, log.segments) if committed else []
    return [
        [
            record.offset,
            record.timestamp,
            record.key and record.key.hex(),
            record.value and record.value.hex(),
            [[name, value and value.hex()] for name, value in record.headers],
        ]
        for split in split_log(log, log.start, end, split_bytes)
        for batches in SplitBatches(with_aborted(split, aborted), FILES, read_bytes=200)
        for batch in batches
        for record in batch.records()
        if split.start_offset <= record.offset < split.end_offset
    ]


@pytest.mark.parametrize("log", LOGS)
def test_bounds(data_dir: Path, answers: dict[str, Any], log: str) -> None:
    found, bounds = readable(data_dir, log), dict(answers[f"bounds {log}"])
    assert (found.start, found.end) == (bounds["start"], bounds["high watermark"])
    assert readable(data_dir, log, to_log_end=True).end == bounds["end"]
    assert last_stable_offset(found) == bounds["last stable offset"]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("split_bytes", [1, 300, 1 << 30])
def test_records(data_dir: Path, answers: dict[str, Any], log: str, split_bytes: int) -> None:
    assert records(readable(data_dir, log), split_bytes=split_bytes) == answers[f"records {log}"]


def test_committed_records(data_dir: Path, answers: dict[str, Any]) -> None:
    """Kafka said which transactions were aborted, and the markers are the control batches behind them."""
    log = readable(data_dir, "transactions 0")
    said = {
        (producer, begin)
        for _, (_, transactions, _) in answers["aborted_transactions transactions 0"]
        for producer, begin in transactions
    }
    stored = [batch for split in split_log(log, 0, log.end, 1 << 30) for batch in raw_batches(Path(split.path))]
    aborted: set[int] = set()
    for producer, begin in said:
        for batch in stored:
            if batch.producer_id == producer and batch.base_offset >= begin:
                if batch.is_control:
                    break
                aborted |= set(range(batch.base_offset, batch.last_offset + 1))
    stable = [record for record in answers["records transactions 0"] if record[0] < 30]
    expected = [record for record in stable if record[0] not in aborted]
    assert 0 < len(expected) < len(stable)
    assert records(log, committed=True) == expected


def raw_batches(path: Path) -> list[RecordBatch]:
    data = path.read_bytes()
    found = []
    position = 0
    while position + 61 <= len(data) and data[position + 16] == 2:
        found.append(RecordBatch(data, position))
        position = found[-1].end
    return found


@pytest.mark.parametrize("log", LOGS)
def test_times(data_dir: Path, answers: dict[str, Any], log: str) -> None:
    asked = 0
    found = readable(data_dir, log)
    for timestamp, (_, offset, _) in answers[f"time_look_ups {log}"]:
        if timestamp >= 0:
            assert offset_of_timestamp(found, timestamp) == (None if offset < 0 else offset), timestamp
            asked += 1
    assert asked > 2
