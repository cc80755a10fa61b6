"""Apache Kafka's DumpLogSegments reads every file we write without a complaint, and finds what was produced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from barnabas.records.record_batch import NO_SEQUENCE, RecordBatch
from tests.compatibility.conftest import OurDirectories
from tests.compatibility.contents import CLIENTS, COMPACTED, IDEMPOTENT, PARTITIONS
from tests.compatibility.data_dirs import barnabas_dump, partition_dirs
from tests.support.apache_kafka import SegmentDump, dump_log_segments

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPICS = {topic: count for topic, count in PARTITIONS.items() if topic != "transactions"}
ENDS = ("stopped", "killed", "recovered")
DEEP = ("--deep-iteration", "--print-data-log")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


SEGMENT_FILES = (".log", ".index", ".timeindex", ".snapshot")


class Dumps:
    """What the tool says of our directories, asked once for each kind of question: every run starts a JVM."""

    def __init__(self, our_directories: OurDirectories, scratch: Path) -> None:
        self._data_dirs = our_directories.data_dirs
        self._scratch = scratch
        self._made: dict[tuple[str, ...], SegmentDump] = {}

    def files(self, end: str, *suffixes: str) -> list[Path]:
        """Of all partitions, in order."""
        directories = partition_dirs(self._data_dirs[end])
        return [
            path
            for topic in TOPICS
            for directory in directories[topic].values()
            for suffix in suffixes
            for path in sorted(directory.glob(f"*{suffix}"))
        ]

    def dump(self, end: str, suffixes: tuple[str, ...], *options: str) -> SegmentDump:
        """Of all such files at once."""
        key = (end, *suffixes, *options)
        if key not in self._made:
            self._made[key] = dump_log_segments(self.files(end, *suffixes), *options, directory=self._scratch)
        return self._made[key]

    def lines(self, end: str, suffixes: tuple[str, ...], *options: str) -> dict[Path, list[str]]:
        """By file."""
        found: dict[Path, list[str]] = {}
        lines: list[str] = []
        for line in self.dump(end, suffixes, *options).lines:
            if line.startswith("Dumping "):
                lines = found.setdefault(Path(line.removeprefix("Dumping ")), [])
            else:
                lines.append(line)
        return found


@pytest.fixture(scope="module")
def dumps(our_directories: OurDirectories, tmp_path_factory: pytest.TempPathFactory) -> Dumps:
    return Dumps(our_directories, tmp_path_factory.mktemp("dumps"))


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
def test_every_record_is_read(our_directories: OurDirectories, dumps: Dumps, end: str, topic: str) -> None:
    by_file = dumps.lines(end, (".log",), *DEEP)
    for number in range(TOPICS[topic]):
        found = [line for path, lines in by_file.items() if path.parent.name == f"{topic}-{number}" for line in lines]
        expected = record_lines(our_directories.answers["stored_batches", topic, number])
        assert [line for line in found if line.startswith("| offset")] == expected


@pytest.mark.parametrize("end", ENDS)
def test_no_log_is_complained_of(dumps: Dumps, end: str) -> None:
    """Holes, which the tool also tells of, are in the compacted log alone."""
    assert len(dumps.files(end, ".log")) > 15
    others: list[str] = []
    heading = ""
    for line in dumps.dump(end, (".log",), *DEEP).complaints:
        heading = line if line.startswith("Non-consecutive") else heading
        is_hole = line == heading or " is followed by " in line
        if not (is_hole and f"/{COMPACTED}-0/" in heading):
            others.append(line)
    assert others == []


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
@pytest.mark.parametrize("end", ENDS)
def test_indexes_agree_with_their_logs(dumps: Dumps, end: str, check: str) -> None:
    assert len(dumps.files(end, ".index", ".timeindex")) > 20
    assert dumps.dump(end, (".index", ".timeindex"), check).complaints == []


@pytest.mark.parametrize("topic", [IDEMPOTENT, CLIENTS])
@pytest.mark.parametrize("end", ["stopped", "recovered"])
def test_the_last_snapshot_has_every_producer(
    our_directories: OurDirectories, dumps: Dumps, end: str, topic: str
) -> None:
    by_file = dumps.lines(end, SEGMENT_FILES)
    for number in range(TOPICS[topic]):
        snapshots = [path for path in by_file if path.suffix == ".snapshot" and path.parent.name == f"{topic}-{number}"]
        assert snapshots[-1].stem == f"{our_directories.answers['bounds', topic, number]['end']:020d}"
        described = [
            (fields["producerId"], fields["producerEpoch"], fields["lastSequence"], fields["lastTimestamp"])
            for fields in map(_fields, by_file[snapshots[-1]])
        ]
        expected = [tuple(map(str, one[:4])) for one in our_directories.answers["producers", topic, number]]
        assert sorted(described) == sorted(expected)


def _fields(line: str) -> dict[str, str]:
    words = line.split()
    return {name.rstrip(":"): value for name, value in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.parametrize(("suffixes", "options"), [(SEGMENT_FILES, ()), ((".log",), DEEP)])
@pytest.mark.parametrize("end", ENDS)
def test_our_dump_says_what_kafkas_says(
    dumps: Dumps, end: str, suffixes: tuple[str, ...], options: tuple[str, ...]
) -> None:
    theirs = dumps.dump(end, suffixes, *options)
    assert barnabas_dump(*dumps.files(end, *suffixes), *options).splitlines() == theirs.lines
