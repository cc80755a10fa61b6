"""Apache Kafka's DumpLogSegments reads every file we write without a complaint, and finds what was produced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from barnabas.records.record_batch import NO_SEQUENCE, RecordBatch
from tests.compatibility.conftest import OurDirectories
from tests.compatibility.contents import CLIENTS, COMPACTED, IDEMPOTENT, PARTITIONS
from tests.compatibility.data_dirs import barnabas_dump, partition_dirs
from tests.support.apache_kafka import dump_log_segments

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPICS = {topic: count for topic, count in PARTITIONS.items() if topic != "transactions"}
ENDS = ("stopped", "killed", "recovered")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def files_of(data_dir: Path, topics: Iterable[str], suffix: str) -> list[Path]:
    directories = partition_dirs(data_dir)
    return [
        path
        for topic in topics
        for number in directories[topic]
        for path in sorted(_dir(data_dir, topic, number, suffix))
    ]


def _dir(data_dir: Path, topic: str, number: int, suffix: str) -> Iterable[Path]:
    return (data_dir / f"{topic}-{number}").glob(f"*{suffix}")


def record_lines(batches: Iterable[tuple[int, str]]) -> list[str]:
    """What the tool prints of the records of these batches."""
    lines = []
    for _, stored in batches:
        batch = RecordBatch(bytes.fromhex(stored))
        for record in batch.records():
            sequence = batch.base_sequence
            if sequence != NO_SEQUENCE:
                sequence += record.offset - batch.base_offset
            names = ",".join(name for name, _ in record.headers)
            line = f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.timestamp}"
            line += f" keySize: {-1 if record.key is None else len(record.key)}"
            line += f" valueSize: {-1 if record.value is None else len(record.value)}"
            line += f" sequence: {sequence} headerKeys: [{names}]"
            line += "" if record.key is None else f" key: {record.key.decode()}"
            line += "" if record.value is None else f" payload: {record.value.decode()}"
            lines.append(line)
    return lines


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("end", ENDS)
def test_every_record_is_read(our_directories: OurDirectories, end: str, topic: str, tmp_path: Path) -> None:
    files = files_of(our_directories.data_dirs[end], [topic], ".log")
    assert len(files) > PARTITIONS[topic] or topic == CLIENTS
    dumped = dump_log_segments(files, "--deep-iteration", "--print-data-log", directory=tmp_path)
    expected = [
        line
        for number in range(TOPICS[topic])
        for line in record_lines(our_directories.answers["stored_batches", topic, number])
    ]
    assert [line for line in dumped.lines if line.startswith("| offset")] == expected
    complaints = [line for line in dumped.complaints if topic != COMPACTED or "followed by" not in line]
    assert [line for line in complaints if topic != COMPACTED or "Non-consecutive" not in line] == []


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
@pytest.mark.parametrize("end", ENDS)
def test_indexes_agree_with_their_logs(our_directories: OurDirectories, end: str, check: str, tmp_path: Path) -> None:
    files = [
        path for suffix in (".index", ".timeindex") for path in files_of(our_directories.data_dirs[end], TOPICS, suffix)
    ]
    assert len(files) > 20
    assert dump_log_segments(files, check, directory=tmp_path).complaints == []


@pytest.mark.parametrize("topic", [IDEMPOTENT, CLIENTS])
@pytest.mark.parametrize("end", ["stopped", "recovered"])
def test_the_last_snapshot_has_every_producer(
    our_directories: OurDirectories, end: str, topic: str, tmp_path: Path
) -> None:
    for number in range(TOPICS[topic]):
        snapshots = files_of(our_directories.data_dirs[end], [topic], ".snapshot")
        of_partition = [path for path in snapshots if path.parent.name == f"{topic}-{number}"]
        dumped = dump_log_segments([of_partition[-1]], directory=tmp_path)
        assert dumped.complaints == []
        assert of_partition[-1].stem == f"{our_directories.answers['bounds', topic, number]['end']:020d}"
        described = [
            (fields["producerId"], fields["producerEpoch"], fields["lastSequence"], fields["lastTimestamp"])
            for fields in map(_fields, dumped.lines[1:])
        ]
        expected = [tuple(map(str, one[:4])) for one in our_directories.answers["producers", topic, number]]
        assert sorted(described) == sorted(expected)


def _fields(line: str) -> dict[str, str]:
    words = line.split()
    return {name.rstrip(":"): value for name, value in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.parametrize("end", ENDS)
def test_our_dump_says_what_kafkas_says(our_directories: OurDirectories, end: str, tmp_path: Path) -> None:
    data_dir = our_directories.data_dirs[end]
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        files = files_of(data_dir, TOPICS, suffix)
        dumped = dump_log_segments(files, directory=tmp_path)
        assert barnabas_dump(*files).splitlines() == dumped.lines
    logs = files_of(data_dir, TOPICS, ".log")
    options = ("--deep-iteration", "--print-data-log")
    assert barnabas_dump(*logs, *options).splitlines() == dump_log_segments(logs, *options, directory=tmp_path).lines
