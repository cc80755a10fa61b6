"""Logs that are cut into splits, cleaned, deleted or damaged between the plan and the read."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.files import Files, OperatingSystemFiles
from barnabas.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, OffsetCheckpointFile
from barnabas.storage.log_append_info import AppendGate, AppendOrigin
from barnabas.storage.readonly.log_directories import ReadableLog, ReadonlyDirectories, offset_of_timestamp
from barnabas.storage.readonly.log_split import LogSplit, SplitBatches, split_log, with_aborted
from barnabas.storage.readonly.log_transactions import aborted_ranges, last_stable_offset
from barnabas.storage.readonly.partition_log import LogUnreadable, PartitionLog, RecordsDeleted
from tests.unit.storage.log_harness import NOW, PARTITION, Broker, batch, log_config

FILES = OperatingSystemFiles(read_only=True)
BATCHES = 300
CONFIG = log_config(segment_bytes=40_000, index_interval_bytes=500)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Some ten segments, every codec, closed in order."""
    broker = Broker(OperatingSystemFiles(), config=CONFIG, log_dirs=(str(tmp_path),))
    log = broker.log()
    chance = random.Random(3)
    for number in range(BATCHES):
        codec = Codec(number % len(Codec))
        records = batch(chance.randint(1, 9), size=200, codec=codec, chance=chance, timestamp=NOW + number * 10)
        log.append_as_leader(records, 0, admit=AppendGate())
    assert len(log.local.segments) > 5
    write_high_watermark(tmp_path, log.log_end_offset)
    broker.manager.shutdown()
    return tmp_path


def write_high_watermark(data_dir: Path, offset: int) -> None:
    OffsetCheckpointFile(str(data_dir), HIGH_WATERMARK_FILE, OperatingSystemFiles()).write({PARTITION: offset})


def readable(data_dir: Path, *, to_log_end: bool = False) -> ReadableLog:
    directories = ReadonlyDirectories([str(data_dir)], FILES)
    return directories.readable(directories.logs([PARTITION.topic])[0], to_log_end=to_log_end)


def plan(data_dir: Path, split_bytes: int = 10_000) -> list[LogSplit]:
    log = readable(data_dir)
    return list(split_log(log, log.start, log.end, split_bytes))


def offsets(split: LogSplit, read_bytes: int = 3_000, files: Files = FILES) -> list[int]:
    return [
        record.offset
        for batches in SplitBatches(split, files, read_bytes)
        for each in batches
        for record in each.records()
        if split.start_offset <= record.offset < split.end_offset
    ]


def all_offsets(data_dir: Path) -> list[int]:
    return [offset for split in plan(data_dir) for offset in offsets(split)]


def logs(data_dir: Path) -> list[Path]:
    return sorted((data_dir / f"{PARTITION}").glob("*.log"))


@pytest.mark.parametrize("split_bytes", [1, 5_000, 39_000, 1 << 30])
@pytest.mark.parametrize("read_bytes", [100, 8 << 20])
def test_every_offset_is_in_one_split(data_dir: Path, split_bytes: int, read_bytes: int) -> None:
    log, splits = readable(data_dir), plan(data_dir, split_bytes)
    assert [offset for split in splits for offset in offsets(split, read_bytes)] == list(range(log.end))
    if split_bytes <= 5_000:
        assert len(splits) > 5 * len(log.segments)
    assert all(split.end_position - split.position <= 1.5 * split_bytes + 5_000 for split in splits)


def test_a_range_within_segments(data_dir: Path) -> None:
    log = readable(data_dir)
    for start, end in ((0, 1), (7, 9), (333, 1_111), (log.end - 1, log.end), (500, 500)):
        splits = split_log(log, start, end, 4_000)
        assert [offset for split in splits for offset in offsets(split)] == list(range(start, end))


def test_indexes_are_only_hints(data_dir: Path) -> None:
    """Of another log, torn or gone: the same records."""
    for number, path in enumerate(logs(data_dir)):
        index = path.with_suffix(".index")
        if number % 3 == 0:
            index.unlink()
        elif number % 3 == 1:
            index.write_bytes(random.Random(number).randbytes(803))
        else:
            index.write_bytes(b"".join(n.to_bytes(4, "big") + (n * 77).to_bytes(4, "big") for n in range(1, 300)))
    log = readable(data_dir)
    for start in (0, 100, 700, log.end - 3):
        splits = split_log(log, start, log.end, 5_000)
        assert [offset for split in splits for offset in offsets(split)] == list(range(start, log.end))
    assert readable(data_dir, to_log_end=True).end == log.end


def test_the_end_is_the_high_watermark(data_dir: Path) -> None:
    """What lies behind is not looked at: the broker may be writing it, and a crash may have torn it."""
    newest = logs(data_dir)[-1]
    newest.write_bytes(newest.read_bytes() + b"\0" * 300)
    end = readable(data_dir).end
    assert all_offsets(data_dir) == list(range(end))
    write_high_watermark(data_dir, end - 20)
    assert all_offsets(data_dir) == list(range(end - 20))
    assert readable(data_dir, to_log_end=True).end == end
    (data_dir / HIGH_WATERMARK_FILE).unlink()
    with pytest.raises(LogUnreadable, match="high watermark is not known; option 'endOfLog'"):
        readable(data_dir)


def test_a_torn_batch_below_the_high_watermark_is_an_error(data_dir: Path) -> None:
    newest = logs(data_dir)[-1]
    newest.write_bytes(newest.read_bytes()[:-30])
    with pytest.raises(LogUnreadable, match=rf"topic-0, offset \d+, {newest} at byte \d+: the batch is cut off"):
        all_offsets(data_dir)


def test_the_log_start_offset_is_honoured(data_dir: Path) -> None:
    OffsetCheckpointFile(str(data_dir), LOG_START_OFFSET_FILE, OperatingSystemFiles()).write({PARTITION: 777})
    end = readable(data_dir).end
    assert all_offsets(data_dir) == list(range(777, end))


def test_a_damaged_batch_is_named(data_dir: Path) -> None:
    path = logs(data_dir)[2]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    base = int(path.stem)
    said = rf"topic-0, offset {base}, {path} at byte 0: the batch at offset {base} is cut off or its checksum"
    with pytest.raises(LogUnreadable, match=said):
        all_offsets(data_dir)


def test_segments_deleted_after_the_plan(data_dir: Path) -> None:
    splits = plan(data_dir)
    path = logs(data_dir)[0]
    gone = [split for split in splits if split.path == str(path)]
    os.rename(path, f"{path}.deleted")
    for split in gone:
        with pytest.raises(RecordsDeleted, match=rf"topic-0: records from offset {split.start_offset} on were deleted"):
            offsets(split)
    kept = [offset for split in splits if split not in gone for offset in offsets(split)]
    assert kept == list(range(gone[-1].end_offset, readable(data_dir).end))


class Cleaning:
    """What the cleaner does to the second and the third segment: they become one with every second batch."""

    def __init__(self, data_dir: Path) -> None:
        self.first, self.second = logs(data_dir)[1:3]
        self.kept: list[int] = []
        """The offsets that are left."""
        content, number = b"", 0
        for path in (self.first, self.second):
            for stored in any_batches(path.read_bytes()):
                if number % 2 == 0:
                    content += bytes(stored.buffer[stored.position : stored.end])
                    self.kept += [record.offset for record in stored.records()]
                number += 1
        self.gone = {*range(int(self.first.stem), int(logs(data_dir)[3].stem))} - {*self.kept}
        self._cleaned = self.first.with_suffix(".log.cleaned")
        self._cleaned.write_bytes(content)

    def swap(self) -> None:
        """The new file is complete; the old ones are still there."""
        self._cleaned.rename(f"{self.first}.swap")

    def finish(self) -> None:
        """The old files go, and the new one takes the first one's name."""
        self.second.rename(f"{self.second}.deleted")
        os.replace(f"{self.first}.swap", self.first)

    def run(self) -> None:
        """All of it."""
        self.swap()
        self.finish()


def delete_oldest(paths: list[Path]) -> None:
    """What retention does: from the oldest segment on."""
    for path in paths:
        path.rename(f"{path}.deleted")


@pytest.mark.parametrize("swap_only", [False, True])
def test_segments_cleaned_after_the_plan(data_dir: Path, swap_only: bool) -> None:
    splits = plan(data_dir)
    cleaning = Cleaning(data_dir)
    cleaning.swap()
    if swap_only:
        # A plan made before reads the old files as long as they are there; a new plan takes the cleaned one.
        splits = plan(data_dir)
    else:
        cleaning.finish()
    end = readable(data_dir).end
    expected = [offset for offset in range(end) if offset not in cleaning.gone]
    assert [offset for split in splits for offset in offsets(split)] == expected


class ChangingFiles:
    """Files that change just before the given call of `open` or `list_dir`, counted from 0."""

    def __init__(self, at_call: int, change: Callable[[], None]) -> None:
        self.calls_left = at_call
        self._change = change

    def __getattr__(self, name: str) -> Any:
        if name in ("open", "list_dir"):
            self.calls_left -= 1
            if self.calls_left == -1:
                self._change()
        return getattr(FILES, name)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_change_at_any_moment(data_dir: Path, tmp_path_factory: pytest.TempPathFactory, is_deleted: bool) -> None:
    """Segments are cleaned, or the oldest ones deleted, between any two looks at the disk: in the plan or in the read.

    The records that are left are all read, once, in order. Deleted ones may be told to be so.
    """
    for at_call in range(1000):
        copy = tmp_path_factory.mktemp("copy") / "data"
        shutil.copytree(data_dir, copy)
        end = readable(copy).end
        if is_deleted:
            gone = {*range(int(logs(copy)[3].stem))}
            change = partial(delete_oldest, logs(copy)[:3])
        else:
            cleaning = Cleaning(copy)
            gone = cleaning.gone
            change = partial(Cleaning.run, cleaning)
        changing = ChangingFiles(at_call, change)
        files = cast("Files", changing)
        directories = ReadonlyDirectories([str(copy)], files)
        log = directories.logs([PARTITION.topic])[0]
        found: list[int] = []
        try:
            for split in replanned(directories, log):
                found += offsets(split, files=files)
        except RecordsDeleted:
            assert is_deleted
        else:
            assert found == sorted(set(found))
            assert {*range(end)} - gone <= {*found} <= {*range(end)}
        shutil.rmtree(copy)
        if changing.calls_left >= 0:
            assert at_call > 30
            return
    raise AssertionError("the read never ends before the change")


def replanned(directories: ReadonlyDirectories, log: PartitionLog) -> list[LogSplit]:
    """Plan again if a segment has gone during the plan, as the log source does."""
    while True:
        try:
            found = directories.readable(log)
            return list(split_log(found, found.start, found.end, 20_000))
        except FileNotFoundError:
            continue


def test_a_partition_in_two_directories_is_an_error(data_dir: Path) -> None:
    other = data_dir / "other"
    (other / f"{PARTITION}").mkdir(parents=True)
    with pytest.raises(LogUnreadable, match=r"topic-0 lies in .* and in .*; name the directories of one broker"):
        ReadonlyDirectories([str(data_dir), str(other)], FILES).logs(["topic"])
    with pytest.raises(LogUnreadable, match=r"topic 'no-such' has no partition directory \(no-such-0\) in"):
        ReadonlyDirectories([str(data_dir)], FILES).logs(["no-such"])
    with pytest.raises(LogUnreadable, match="is no directory; name a broker's data directory"):
        ReadonlyDirectories([str(data_dir / "none")], FILES)


def test_times(data_dir: Path) -> None:
    log = readable(data_dir)
    stamps = [
        (record.timestamp, record.offset)
        for split in plan(data_dir)
        for batches in SplitBatches(split, FILES)
        for each in batches
        for record in each.records()
    ]
    for asked in range(NOW - 5, NOW + BATCHES * 10 + 20, 7):
        expected = next((offset for stamp, offset in stamps if stamp >= asked), None)
        assert offset_of_timestamp(log, asked) == expected


def test_transactions(tmp_path: Path) -> None:
    """Three producers take turns over many segments; one is open at the end. The log's own answer is the same."""
    config = log_config(segment_bytes=2_000, index_interval_bytes=200)
    broker = Broker(OperatingSystemFiles(), config=config, log_dirs=(str(tmp_path),))
    log, chance = broker.log(), random.Random(11)
    sequences, open_since, aborted_offsets = {1: 0, 2: 0, 3: 0}, dict[int, list[int]](), set[int]()
    data: list[int] = []
    for number in range(400):
        producer = chance.choice((1, 2, 3))
        if producer in open_since and chance.random() < 0.3 and number < 390:
            abort = chance.random() < 0.5
            marker = EndTransactionMarker(abort, 0, NOW).batch(producer, 0)
            log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR, admit=AppendGate())
            written = open_since.pop(producer)
            aborted_offsets |= set(written) if abort else set()
            continue
        builder = RecordBatchBuilder(
            producer_id=producer, producer_epoch=0, base_sequence=sequences[producer], is_transactional=True
        )
        builder.append(NOW, b"key", b"value")
        sequences[producer] += 1
        offset = log.append_as_leader(builder.build(), 0, admit=AppendGate()).first_offset
        open_since.setdefault(producer, []).append(offset)
        data.append(offset)
    assert open_since
    write_high_watermark(tmp_path, log.high_watermark)
    found = readable(tmp_path)
    end = last_stable_offset(found)
    assert end == log.last_stable_offset == min(each[0] for each in open_since.values())
    aborted = aborted_ranges(found.log, found.segments)
    splits = [with_aborted(split, aborted) for split in split_log(found, 0, end, 500)]
    assert len(splits) > len(found.segments)
    expected = [offset for offset in data if offset < end and offset not in aborted_offsets]
    assert aborted_offsets
    assert [offset for split in splits for offset in offsets(split)] == expected
    assert [offset for split in plan(tmp_path) for offset in offsets(split)] == data
    # Without snapshots, all batches are looked at.
    for path in (tmp_path / f"{PARTITION}").glob("*.snapshot"):
        path.unlink()
    assert last_stable_offset(found) == end
    broker.manager.shutdown()
