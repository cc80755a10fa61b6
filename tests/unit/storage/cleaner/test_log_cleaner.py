"""What the cleaner keeps of a log, round by round, against a model; when it cleans, and what it leaves alone."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.crc import crc32c
from barnabas.records.file_records import FileRecords
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from barnabas.storage.cleaner.config import SKIMPY_BYTES_PER_ENTRY, CleanerConfig
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.segment.batch_scan import scan_batches
from tests.support.simulated_files import SimulatedFile, SimulatedFiles
from tests.unit.storage.cleaner_harness import CleanedBroker, append, append_batch, stored
from tests.unit.storage.log_harness import LOG_DIR, NOW, PARTITION, check_indexes, fault_once, log_config, read_all

RETENTION_MS = 1000
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@dataclass
class ModelBatch:
    """A produced batch: what is left of it, and when its tombstones may go."""

    segment: int
    records: dict[int, tuple[bytes, bytes | None]]
    horizon_ms: int | None = None


@dataclass
class Model:
    """A compacted log as Kafka's documentation has it: record by record, no maps, no segments but their bounds."""

    batches: list[ModelBatch] = field(default_factory=list)

    def clean(self, end: int, segments: list[int], now_ms: int) -> None:
        """The log was cleaned up to before offset `end`; it had segments that began at `segments`."""
        newest = {key: offset for one in self.batches for offset, (key, _) in one.records.items() if offset < end}
        for one in self.batches:
            base = max(start for start in segments if start <= one.segment)
            if base >= end:
                continue
            drops_tombstones = one.horizon_ms is not None and one.horizon_ms <= now_ms
            one.records = {
                offset: (key, value)
                for offset, (key, value) in one.records.items()
                if offset >= end or (newest[key] == offset and (value is not None or not drops_tombstones))
            }
            if one.horizon_ms is None and any(value is None for _, value in one.records.values()):
                one.horizon_ms = now_ms + RETENTION_MS

    @property
    def stored(self) -> list[tuple[int, bytes, bytes | None]]:
        return [(offset, *record) for one in self.batches for offset, record in one.records.items()]


keys = st.sampled_from([b"a", b"b", b"c", b"d" * 60, b"e" * 40])
values = st.one_of(st.none(), st.binary(min_size=1, max_size=40))
produced = st.tuples(st.lists(st.tuples(keys, values), min_size=1, max_size=6), st.sampled_from(CODECS))
steps = st.lists(st.one_of(produced, st.sampled_from(["clean", "roll", "wait", "restart"])), min_size=1, max_size=40)


@settings(max_examples=120, deadline=None)
@given(steps=steps, slots=st.sampled_from([3, 6, 1000]), segment_bytes=st.sampled_from([700, 1200]))
def test_the_last_record_of_each_key_stays(steps: list[object], slots: int, segment_bytes: int) -> None:
    cleaner = CleanerConfig(threads=0, dedupe_buffer_bytes=slots * SKIMPY_BYTES_PER_ENTRY)
    broker = CleanedBroker(cleaner=cleaner, segment_bytes=segment_bytes, delete_retention_ms=RETENTION_MS)
    log, model = broker.log(), Model()
    appended: dict[int, tuple[bytes, bytes | None]] = {}
    for step in steps:
        if isinstance(step, tuple):
            records, codec = step
            base = append(log, *records, codec=codec, timestamp=NOW)
            numbered = {base + number: record for number, record in enumerate(records)}
            model.batches.append(ModelBatch(log.local.segments.active.base_offset, numbered))
            appended |= numbered
        elif step == "clean":
            segments = [segment.base_offset for segment in log.local.segments]
            above = read_above(log, log.local.segments.active.base_offset)
            if broker.clean():
                model.clean(broker.cleaner.manager.first_dirty_offset(log) or 0, segments, broker.clock.milliseconds())
            assert read_above(log, log.local.segments.active.base_offset) == above
        elif step == "roll" and log.local.segments.active.size:
            log.roll()
        elif step == "wait":
            broker.clock.advance(600)
        elif step == "restart":
            log = broker.restart()
            log.raise_high_watermark_to_end()
        found = stored(log)
        assert found == model.stored
        assert all(appended[offset] == (key, value) for offset, key, value in found)
        check_indexes(log)
    assert not broker.failed_dirs


def read_above(log: UnifiedLog, offset: int) -> list[bytes]:
    return [data for data in read_all(log, max_bytes=1 << 20) if RecordBatch(data).base_offset >= offset]


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_headers_and_codec_survive(codec: Codec) -> None:
    broker = CleanedBroker()
    log = broker.log()
    builder = RecordBatchBuilder(codec)
    builder.append(NOW, b"a", b"old")
    builder.append(NOW + 5, b"b", b"kept", [("name", b"value"), ("none", None)])
    builder.append(NOW + 3, b"a", b"new")
    append_batch(log, builder)
    log.roll()
    assert broker.clean()
    (data,) = read_all(log)
    batch = RecordBatch(data)
    batch.check()
    assert (batch.codec, batch.base_offset, batch.last_offset, batch.count) == (codec, 0, 2, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW + 5, NOW + 5)
    assert list(batch.records()) == [
        Record(1, NOW + 5, b"b", b"kept", (("name", b"value"), ("none", None))),
        Record(2, NOW + 3, b"a", b"new"),
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_stays(codec: Codec) -> None:
    broker = CleanedBroker(message_timestamp_type="LogAppendTime", delete_retention_ms=RETENTION_MS)
    log = broker.log()
    broker.clock.advance(500)
    appended_ms = broker.clock.milliseconds()
    append(log, (b"a", b"1"), (b"b", b"1"), (b"c", None), codec=codec, timestamp=NOW - 77_000)
    append(log, (b"a", b"2"), codec=codec, timestamp=NOW - 77_000)
    log.roll()
    for horizon_ms in (appended_ms + RETENTION_MS, None):
        broker.clock.advance(RETENTION_MS if horizon_ms is None else 0)
        assert broker.clean()
        first = RecordBatch(read_all(log)[0])
        first.check()
        assert first.delete_horizon_ms in (horizon_ms, appended_ms + RETENTION_MS)
        assert (first.timestamp_type, first.max_timestamp) == (1, appended_ms)
        kept = [(record.key, record.timestamp) for record in first.records()]
        assert kept == [(b"b", appended_ms), (b"c", appended_ms)][: 2 if horizon_ms else 1]
        append(log, (b"x", b"1"), timestamp=NOW)
        log.roll()


def test_records_without_a_key_go() -> None:
    """They are from the time before the topic was compacted."""
    broker = CleanedBroker()
    log = broker.log()
    compacted = log.config
    log.update_config(log_config(cleanup_policy="delete"))
    builder = RecordBatchBuilder()
    for key in (b"a", None, b"b", None):
        builder.append(NOW, key, b"1")
    append_batch(log, builder)
    log.roll()
    assert not broker.clean()
    log.update_config(compacted)
    assert broker.clean()
    assert stored(log) == [(0, b"a", b"1"), (2, b"b", b"1")]


def test_a_batch_that_stays_whole_is_copied_byte_for_byte() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), (b"b", b"2"), codec=Codec.LZ4, timestamp=NOW)
    append(log, (b"c", b"3"), timestamp=NOW)
    before = read_all(log)
    log.roll()
    assert broker.clean()
    assert read_all(log) == before


def test_tombstones_go_after_their_time_only() -> None:
    broker = CleanedBroker(delete_retention_ms=RETENTION_MS)
    log = broker.log()
    append(log, (b"a", b"1"), (b"b", b"2"), timestamp=NOW)
    append(log, (b"a", None), timestamp=NOW + 7)
    log.roll()
    assert broker.clean()
    tombstone = RecordBatch(read_all(log)[-1])
    assert tombstone.delete_horizon_ms == broker.clock.milliseconds() + RETENTION_MS
    assert [record.timestamp for record in tombstone.records()] == [NOW + 7]  # relative to the horizon now
    for waited, there in ((RETENTION_MS - 1, True), (1, False)):
        broker.clock.advance(waited)
        append(log, (b"c", b"3"), timestamp=NOW)
        log.roll()
        assert broker.clean()
        assert ((2, b"a", None) in stored(log)) is there
    assert [record[1:] for record in stored(log)] == [(b"b", b"2"), (b"c", b"3")]


def test_neighbours_become_one_segment_and_their_files_go_later() -> None:
    broker = CleanedBroker(segment_bytes=1000, file_delete_delay_ms=5000)
    log = broker.log()
    for number in range(60):
        append(log, (b"key%d" % (number % 3), b"v" * 40), timestamp=NOW + number)
    log.roll()
    before = len(log.local.segments)
    assert broker.clean()
    append(log, (b"x", b"v"), timestamp=NOW)
    log.roll()
    assert broker.clean()
    assert len(log.local.segments) < before / 3
    assert [offset for offset, _, _ in stored(log)] == [57, 58, 59, 60]
    names = broker.files.list_dir(log.directory)
    assert any(name.endswith(".deleted") for name in names)
    broker.clock.advance(5000)
    broker.scheduler.tick()
    names = broker.files.list_dir(log.directory)
    assert not [name for name in names if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert len([name for name in names if name.endswith(".log")]) == len(log.local.segments)
    snapshots = {name[:20] for name in names if name.endswith(".snapshot")}
    assert snapshots <= {f"{segment.base_offset:020d}" for segment in log.local.segments}


def test_readers_of_an_old_segment_go_on() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    old = log.local.segments.first
    limit = LogOffsetMetadata(log.local.end.message_offset, 0, old.size)
    assert broker.clean()
    assert log.local.segments.first is not old
    assert len(list(scan_batches(old.file, 0, old.size))) == 2  # renamed, still there
    data = log.local.read(0, 10_000, limit, min_one_message=True)  # a limit noted before the cleaning
    assert len(data.records) == log.local.segments.first.size < old.size
    data.release()


def test_a_reader_at_the_end_of_a_segment_misses_nothing_of_a_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between "segment 0 ends here" and "what follows it?", the cleaner merges what follows into segment 0."""
    really_read = SimulatedFile.read
    rounds = 0  # of cleaning, to come with the next reads

    def read_after_a_cleaning(file: SimulatedFile, position: int, size: int) -> bytes:
        nonlocal rounds
        if rounds and ".log" in file.path:  # an index is read under a lock, which the cleaner takes too
            rounds -= 1
            assert broker.clean()
        return really_read(file, position, size)

    monkeypatch.setattr(SimulatedFile, "read", read_after_a_cleaning)
    broker = CleanedBroker(segment_bytes=1000, index_interval_bytes=4096)
    log = broker.log()
    append(log, (b"a", b"0"), timestamp=NOW)
    append(log, (b"b", b"1"), timestamp=NOW)
    log.roll()
    append(log, (b"b", b"2"), timestamp=NOW)
    append(log, (b"c", b"3" * 850), timestamp=NOW)  # too large for one segment with the first record
    log.roll()
    for key in (b"c", b"d"):
        assert broker.clean()
        append(log, (key, b"4"), timestamp=NOW)
        log.roll()
    assert [segment.base_offset for segment in log.local.segments] == [0, 2, 4, 5, 6]
    rounds = 1
    data = log.local.read(1, 10_000, log.local.end, min_one_message=True)
    assert [segment.base_offset for segment in log.local.segments] == [0, 6]
    assert isinstance(data.records, FileRecords)
    assert [record.offset for record in RecordBatch(data.records.read()).records()] == [2]
    data.release()


# -- which log, and how much of it


def test_the_active_segment_and_what_is_not_replicated_stay() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    assert not broker.clean()  # all in the active segment
    log.roll()
    builder = RecordBatchBuilder()
    builder.append(NOW, b"a", b"3")
    log.append_as_leader(builder.build(), leader_epoch=0)
    log.roll()
    log.update_high_watermark(2)
    assert broker.clean()
    assert broker.cleaner.manager.first_dirty_offset(log) == 2
    assert [offset for offset, _, _ in stored(log)] == [1, 2]


def test_young_records_stay_as_long_as_min_compaction_lag() -> None:
    broker = CleanedBroker(min_compaction_lag_ms=10_000)
    log = broker.log()
    now = broker.clock.milliseconds()
    for age in (20_000, 15_000, 5_000):
        append(log, (b"a", b"1"), timestamp=now - age)
        log.roll()
    assert broker.clean()
    assert [offset for offset, _, _ in stored(log)] == [1, 2]
    assert not broker.clean()
    broker.clock.advance(5_001)
    assert broker.clean()
    assert [offset for offset, _, _ in stored(log)] == [2]


def test_dirty_enough_or_waiting_too_long() -> None:
    broker = CleanedBroker(min_cleanable_dirty_ratio="0.9", max_compaction_lag_ms=50_000, segment_bytes=10_000)
    log = broker.log()
    for number in range(10):
        append(log, (b"key%d" % number, b"v" * 100), timestamp=broker.clock.milliseconds())
    log.roll()
    assert broker.clean()  # all of it is dirty
    assert broker.cleaner.max_dirty_percent == 100
    append(log, (b"key1", b"new"), timestamp=broker.clock.milliseconds())
    log.roll()
    assert not broker.clean()
    assert 0 < broker.cleaner.max_dirty_percent < 90
    broker.clock.advance(50_000)
    assert not broker.clean()
    broker.clock.advance(1)
    assert broker.clean()


def test_the_filthiest_log_comes_first_and_logs_that_only_delete_never() -> None:
    broker = CleanedBroker()
    logs = {name: broker.log(TopicPartition(name, 0)) for name in ("tidy", "filthy", "deleted")}
    logs["deleted"].update_config(log_config(cleanup_policy="delete"))
    for name, log in logs.items():
        for _ in range(2):
            append(log, (b"a", b"x" * 100), timestamp=NOW)
        log.roll()
        if name == "tidy":
            assert broker.clean()
            append(log, (b"a", b"x"), timestamp=NOW)
            log.roll()
    for expected in ("filthy", "tidy"):
        cleanable, _ = broker.cleaner.manager.grab_filthiest_log()
        assert cleanable is not None
        assert cleanable.topic_partition.topic == expected
    assert broker.cleaner.manager.grab_filthiest_log()[0] is None


def test_a_map_too_small_cleans_in_parts() -> None:
    broker = CleanedBroker(cleaner=CleanerConfig(threads=0, dedupe_buffer_bytes=12 * SKIMPY_BYTES_PER_ENTRY))
    log = broker.log()
    for number in range(40):
        append(log, (b"%d" % (number % 20), b"v"), timestamp=NOW)
    log.roll()
    rounds = 0
    while broker.clean():
        rounds += 1
    assert rounds == 4  # ten keys a round
    assert [offset for offset, _, _ in stored(log)] == list(range(20, 40))


def test_the_checkpoint_outlives_a_restart_and_is_reset_when_it_is_wrong() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"b", b"1"), timestamp=NOW)
    log.roll()
    assert broker.clean()
    path = f"{LOG_DIR}/cleaner-offset-checkpoint"
    assert broker.files.read_bytes(path) == b"0\n1\ntopic 0 2\n"
    log = broker.restart()
    log.raise_high_watermark_to_end()
    assert not broker.clean()
    for wrong in (b"0\n1\ntopic 0 99\n", b"nonsense"):
        broker.manager.shutdown()
        broker.files.write_atomically(path, wrong)
        broker.start()
        broker.log().raise_high_watermark_to_end()
        assert broker.clean()
        assert broker.files.read_bytes(path) == b"0\n1\ntopic 0 2\n"


def test_records_deleted_by_request_move_the_dirty_part() -> None:
    broker = CleanedBroker()
    log = broker.log()
    for number in range(30):
        append(log, (b"%d" % (number % 2), b"v" * 100), timestamp=NOW)
    log.roll()
    assert broker.clean()
    log.maybe_increment_log_start_offset(30, "client delete records request")
    assert not broker.clean()
    assert log.local.segments.first.base_offset == 30  # the cleaner deletes what lies below the start
    append(log, (b"x", b"v"), timestamp=NOW)
    log.roll()
    assert broker.clean()
    assert [offset for offset, _, _ in stored(log)] == [30]


def test_compact_and_delete_together() -> None:
    broker = CleanedBroker(cleanup_policy="compact,delete", retention_ms=10_000, segment_bytes=400)
    log = broker.log()
    for number in range(20):
        append(log, (b"%d" % number, b"v" * 50), timestamp=broker.clock.milliseconds())
    log.roll()
    assert broker.clean()
    assert len(stored(log)) == 20
    broker.clock.advance(10_001)
    broker.manager.tasks.delete_old_segments()  # retention leaves compacted logs to the cleaner
    assert len(stored(log)) == 20
    broker.clean()
    assert stored(log) == []
    assert log.log_start_offset == 20


def test_message_sets_of_old_formats() -> None:
    broker = CleanedBroker(delete_retention_ms=RETENTION_MS, segment_bytes=300)
    log = broker.log()

    def old(magic: int, first: int, codec: Codec, *records: tuple[bytes, bytes | None]) -> None:
        rows = [Record(first + number, NOW, key, value) for number, (key, value) in enumerate(records)]
        log.append_as_follower(encode_message_set(magic, rows, codec))

    old(0, 0, Codec.NONE, (b"a", b"1"), (b"b", b"1"))
    old(1, 2, Codec.GZIP, (b"a", b"2"), (b"c", b"2"), (b"d", None))
    old(1, 5, Codec.NONE, (b"c", b"3"), (b"e", None))
    log.raise_high_watermark_to_end()
    log.roll()
    assert broker.clean()
    kept = [(1, b"b", b"1"), (2, b"a", b"2"), (4, b"d", None), (5, b"c", b"3"), (6, b"e", None)]
    assert read_old(log) == kept
    for _ in range(2):
        broker.clock.advance(10 * RETENTION_MS)
        append(log, (b"x", b"v" * 100), timestamp=NOW)
        log.roll()
        assert broker.clean()
    # They go when the clean part was last written long after their segment.
    assert [record for record in read_old(log) if record[2] is None] == []


def read_old(log: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for segment in log.local.segments
        for batch in scan_batches(segment.file, 0, segment.size)
        for record in batch.records()
    ]


# -- when something goes wrong


def test_a_damaged_log_is_given_up_until_it_is_gone() -> None:
    broker = CleanedBroker()
    log = broker.log()
    append(log, (b"a", b"1"), (b"b", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    file = broker.files.open(log.local.segments.first.file.path)
    file.write((b"\xff",), 70)
    file.close()
    assert not broker.clean()
    assert len(broker.cleaner.manager.uncleanable_partitions(LOG_DIR)) == 1
    assert broker.cleaner.manager.uncleanable_bytes(LOG_DIR) == log.local.segments.first.size
    assert broker.cleaner.manager.state(PARTITION) is None
    assert not broker.clean()  # it is not tried again
    assert not [name for name in broker.files.list_dir(log.directory) if name.endswith(".cleaned")]
    broker.manager.async_delete(PARTITION)
    broker.cleaner.manager.maintain_uncleanable()
    assert not broker.cleaner.manager.uncleanable_partitions(LOG_DIR)
    assert not broker.failed_dirs


@pytest.mark.parametrize(("number", "fails"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_full_disk_is_waited_for_and_a_broken_one_goes_offline(number: int, fails: bool) -> None:
    broker = CleanedBroker()
    assert isinstance(broker.files, SimulatedFiles)
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    before = stored(log)
    broker.files.fault = fault_once("write", OSError(number, "injected"), ".log.cleaned")
    broker.cleaner_config = CleanerConfig(threads=0, backoff_ms=0)
    broker.clean()
    assert broker.failed_dirs == ([LOG_DIR] if fails else [])
    assert stored(log) == before
    assert not [name for name in broker.files.list_dir(log.directory) if name.endswith(".cleaned")]
    if not fails:
        assert broker.clean()
        assert [offset for offset, _, _ in stored(log)] == [1]


@pytest.mark.parametrize(("at", "fails"), [(".log.cleaned", False), (".timeindex.cleaned", False), (".log", True)])
def test_a_swap_without_room_is_undone_or_left_to_the_next_start(at: str, fails: bool) -> None:
    broker = CleanedBroker()
    assert isinstance(broker.files, SimulatedFiles)
    log = broker.log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    before = stored(log)
    broker.files.fault = fault_once("rename", OSError(errno.ENOSPC, "injected"), at)
    broker.clean()
    assert broker.failed_dirs == ([LOG_DIR] if fails else [])
    if fails:
        log = broker.kill()
        assert [offset for offset, _, _ in stored(log)] == [1]
        return
    assert stored(log) == before
    assert not [name for name in broker.files.list_dir(log.directory) if name.endswith((".cleaned", ".swap"))]
    assert broker.clean()
    assert [offset for offset, _, _ in stored(log)] == [1]


def test_a_deleted_partition_leaves_the_checkpoint() -> None:
    broker = CleanedBroker()
    for name in ("one", "two"):
        log = broker.log(TopicPartition(name, 0))
        append(log, (b"a", b"1"), timestamp=NOW)
        append(log, (b"a", b"2"), timestamp=NOW)
        log.roll()
        assert broker.clean()
    broker.manager.async_delete(TopicPartition("one", 0))
    assert broker.files.read_bytes(f"{LOG_DIR}/cleaner-offset-checkpoint") == b"0\n1\ntwo 0 2\n"


def test_a_truncated_log_is_clean_to_its_active_segment() -> None:
    broker = CleanedBroker(segment_bytes=300)
    log = broker.log()
    for number in range(12):
        append(log, (b"%d" % number, b"v" * 50), timestamp=NOW)
    log.roll()
    assert broker.clean()
    assert broker.cleaner.manager.first_dirty_offset(log) == 12
    assert broker.manager.truncate_to(PARTITION, 5)
    clean = broker.cleaner.manager.first_dirty_offset(log)
    assert clean == log.local.segments.active.base_offset <= 5
    broker.manager.truncate_fully_and_start_at(PARTITION, 3)
    assert broker.cleaner.manager.first_dirty_offset(log) == 3


def test_what_a_hostile_batch_says_of_its_offsets_moves_no_bounds() -> None:
    """A topic that was not compacted took it unseen; the map is full in the middle of it."""
    config = CleanerConfig(threads=0, dedupe_buffer_bytes=3 * SKIMPY_BYTES_PER_ENTRY)
    broker = CleanedBroker(cleaner=config, cleanup_policy="delete")
    builder = RecordBatchBuilder()
    for key in (b"a", b"b", b"c"):
        builder.append(NOW, key, b"value")
    data = bytearray(builder.build())
    record_bytes = (len(data) - HEADER_SIZE) // 3
    for number, delta in enumerate((0, 50, 60)):
        data[HEADER_SIZE + record_bytes * number + 3] = delta << 1
    data[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(bytes(data[ATTRIBUTES_POSITION:])).to_bytes(4, "big")
    log = broker.log()
    log.append_as_leader(bytes(data), 0)
    log.roll()
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    active = log.local.segments.active
    log.update_config(log_config(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0"))
    assert broker.clean()
    assert log.local.segments.active is active
    assert broker.cleaner.manager.first_dirty_offset(log) == 3


def test_the_smallest_buffer_is_large_enough() -> None:
    broker = CleanedBroker(cleaner=CleanerConfig(threads=0, io_buffer_bytes=0))
    log = broker.log()
    for number in range(30):
        append(log, (b"key%d" % (number % 3), b"value"))
    log.roll()
    assert broker.clean()
    assert len(stored(log)) == 3
