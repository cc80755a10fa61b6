"""Append, roll, read, watermarks, truncation and retention of one log on a simulated disk."""

from __future__ import annotations

import errno
import random
import threading

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.file_records import FileRecords
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.leader_epochs import EpochEntry
from barnabas.storage.log.timestamp_search import TimestampAndOffset, segment_boundaries
from barnabas.storage.log_append_info import AppendGate
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import (
    NOW,
    Broker,
    batch,
    check_indexes,
    fault_once,
    log_config,
    offsets,
    read_all,
    without_place,
)

SMALL = {"segment_bytes": 2000, "index_interval_bytes": 200}


def test_offsets_and_epoch_are_set_and_the_rest_stays() -> None:
    log = Broker().log()
    produced = [batch(3), batch(1, key=None), batch(2)]
    infos = [log.append_as_leader(memoryview(one), 7) for one in produced]
    assert [(info.first_offset, info.last_offset, info.record_count) for info in infos] == [
        (0, 2, 3),
        (3, 3, 1),
        (4, 5, 2),
    ]
    stored = read_all(log)
    assert offsets(stored) == [(0, 2), (3, 3), (4, 5)]
    assert [without_place(one) for one in stored] == [without_place(one) for one in produced]
    assert {RecordBatch(one).partition_leader_epoch for one in stored} == {7}
    assert all(RecordBatch(one).is_valid_crc() for one in stored)
    assert infos[0].max_timestamp == NOW + 2
    assert infos[0].log_append_time_ms == -1


def test_rolls_by_size_and_reads_across_segments() -> None:
    broker = Broker(config=log_config(**SMALL))
    log = broker.log()
    produced = [batch(random.Random(number).randint(1, 5)) for number in range(100)]
    for one in produced:
        log.append_as_leader(one, 0)
    assert len(log.local.segments) > 5
    assert all(segment.size <= 2000 for segment in log.local.segments)
    assert [without_place(one) for one in read_all(log)] == [without_place(one) for one in produced]
    assert check_indexes(log) > 40
    broker.scheduler.tick()
    assert log.local.recovery_point == log.local.segments.active.base_offset


def test_every_offset_is_found_from_every_state() -> None:
    """In memory, on disk, after a restart: the batch that holds the offset comes first."""
    broker = Broker(config=log_config(**SMALL))
    log = broker.log()
    for number in range(60):
        log.append_as_leader(batch(number % 4 + 1), 0)
    for current in (log, broker.restart()):
        for offset in range(current.log_end_offset):
            data = current.read(offset, 10, FetchIsolation.LOG_END)
            assert isinstance(data.records, FileRecords)
            first = RecordBatch(data.records.read())
            assert first.base_offset <= offset <= first.last_offset
            assert len(data.records) == first.length
            assert data.fetch_offset.message_offset == offset
            data.release()


def test_limits_of_a_read() -> None:
    log = Broker().log()
    sizes = [len(batch(2)) for _ in range(3)]
    for _ in sizes:
        log.append_as_leader(batch(2), 0)
    assert len(log.read(0, 1 << 20, FetchIsolation.LOG_END).records) == sum(sizes)
    assert len(log.read(0, sizes[0] + 5, FetchIsolation.LOG_END).records) == sizes[0] + 5
    whole = log.read(0, 5, FetchIsolation.LOG_END, True)
    assert len(whole.records) == sizes[0]
    cut = log.read(0, 5, FetchIsolation.LOG_END, False)
    assert len(cut.records) == 5
    assert cut.first_entry_incomplete
    assert log.read(0, 0, FetchIsolation.LOG_END, False).records == b""
    assert log.read(6, 100, FetchIsolation.LOG_END).records == b""
    for offset in (-1, 7):
        with pytest.raises(ApiError) as caught:
            log.read(offset, 100, FetchIsolation.LOG_END)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_high_watermark_bounds_consumers() -> None:
    log = Broker(config=log_config(**SMALL)).log()
    for _ in range(50):
        log.append_as_leader(batch(2), 0)
    assert log.high_watermark == 0
    assert read_all(log, FetchIsolation.HIGH_WATERMARK) == []
    place = log.local.position_of(60)
    assert place.segment_base_offset > 0
    assert log.maybe_increment_high_watermark(place) == LogOffsetMetadata(0, 0, 0)
    assert log.maybe_increment_high_watermark(place) is None
    assert offsets(read_all(log, FetchIsolation.HIGH_WATERMARK))[-1] == (58, 59)
    assert offsets(read_all(log, FetchIsolation.TXN_COMMITTED))[-1] == (58, 59)
    beyond = log.read(80, 100, FetchIsolation.HIGH_WATERMARK)
    assert beyond.records == b""
    assert beyond.fetch_offset.message_offset == 80
    with pytest.raises(ValueError, match="beyond the end"):
        log.maybe_increment_high_watermark(LogOffsetMetadata(101))
    assert log.update_high_watermark(1000) == 100


@pytest.mark.parametrize("isolation", [FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED])
def test_high_watermark_of_a_follower_is_placed_by_the_first_reader(isolation: FetchIsolation) -> None:
    broker = Broker(config=log_config(**SMALL))
    log = broker.log()
    for _ in range(50):
        log.append_as_leader(batch(2), 0)
    for offset, last_batch in ((60, (58, 59)), (63, (60, 61)), (98, (96, 97))):  # 63 lies in the middle of a batch
        assert log.update_high_watermark(offset) == offset
        assert log.bounds.high_watermark == LogOffsetMetadata(offset)
        assert offsets(read_all(log, isolation))[-1] == last_batch
        assert log.bounds.high_watermark == log.local.position_of(offset)
    assert log.placed_bounds() is log.bounds
    assert log.update_high_watermark(100) == 100
    assert log.bounds.high_watermark == log.local.end


def test_high_watermark_at_the_end_moves_to_the_new_segment() -> None:
    """A fetch that waits at the end must not take a roll for a diverging log."""
    log = Broker().log()
    log.append_as_leader(batch(), 0)
    log.maybe_increment_high_watermark(log.local.end)
    log.roll()
    assert log.bounds.high_watermark == log.local.end == LogOffsetMetadata(1, 1, 0)


@pytest.mark.parametrize(
    ("settings", "timestamps", "segments"),
    [
        ({"segment_ms": 1000}, [NOW, NOW + 1000], 1),
        ({"segment_ms": 1000}, [NOW, NOW + 1001], 2),
        ({"segment_ms": 1000}, [NOW, NOW + 900, NOW + 1001], 2),
        ({"segment_index_bytes": 36, "index_interval_bytes": 0}, [NOW] * 5, 1),
        ({"segment_index_bytes": 36, "index_interval_bytes": 0}, [NOW] * 6, 2),  # 4 entries of 8 bytes
        ({"segment_index_bytes": 36, "index_interval_bytes": 0}, [NOW + n for n in range(3)], 1),
        ({"segment_index_bytes": 36, "index_interval_bytes": 0}, [NOW + n for n in range(4)], 2),  # 3 - 1 of 12
    ],
)
def test_rolls_by_time_and_full_index(settings: dict[str, int], timestamps: list[int], segments: int) -> None:
    log = Broker(config=log_config(**settings)).log()
    for timestamp in timestamps:
        log.append_as_leader(batch(timestamp=timestamp), 0)
    assert len(log.local.segments) == segments


def test_rolls_by_wall_time_where_records_have_no_timestamp() -> None:
    broker = Broker(config=log_config(segment_ms=1000))
    log = broker.log()
    log.append_as_leader(batch(timestamp=-1), 0)
    broker.clock.advance(1000)
    log.append_as_leader(batch(timestamp=-1), 0)
    assert len(log.local.segments) == 1
    broker.clock.advance(1)
    log.append_as_leader(batch(timestamp=-1), 0)
    assert len(log.local.segments) == 2


def test_rolls_where_a_relative_offset_would_not_fit() -> None:
    log = Broker().log()
    log.append_as_leader(batch(), 0)
    far = bytearray(batch())
    far[:8] = (2**31 + 5).to_bytes(8, "big")
    far[12:16] = bytes(4)
    info = log.append_as_follower(bytes(far))
    assert (info.first_offset, log.log_end_offset) == (2**31 + 5, 2**31 + 6)
    assert [segment.base_offset for segment in log.local.segments] == [0, 2**31 + 5]
    assert offsets(read_all(log)) == [(0, 0), (2**31 + 5, 2**31 + 5)]


def test_epochs_are_noted_where_they_begin() -> None:
    broker = Broker()
    log = broker.log()
    for epoch in (0, 0, 2, 5):
        log.append_as_leader(batch(2), epoch)
    assert log.leader_epochs.entries == (EpochEntry(0, 0), EpochEntry(2, 4), EpochEntry(5, 6))
    assert log.leader_epochs.latest_epoch == 5
    assert log.end_offset_for_epoch(0) == EpochEntry(0, 4)
    assert log.end_offset_for_epoch(5) == EpochEntry(5, 8)
    assert log.end_offset_for_epoch(9) is None
    assert broker.restart().leader_epochs.entries == log.leader_epochs.entries


def test_follower_takes_offsets_as_given() -> None:
    leader = Broker().log()
    for epoch in (1, 1, 3):
        leader.append_as_leader(batch(3), epoch)
    stored = read_all(leader)
    follower = Broker().log()
    info = follower.append_as_follower(b"".join(stored) + stored[0][:30])
    assert (info.first_offset, info.last_offset, info.record_count) == (0, 8, 9)
    assert read_all(follower) == stored
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_as_follower(stored[0])
    with pytest.raises(OffsetsOutOfOrder):
        follower.append_as_follower(stored[1] + stored[0])
    broken = bytearray(stored[0])
    broken[70] ^= 1
    with pytest.raises(ApiError) as caught:
        follower.append_as_follower(bytes(broken))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 9


@pytest.mark.parametrize("target", [0, 1, 7, 50, 99, 100])
def test_truncation_drops_whole_batches_at_and_behind_the_offset(target: int) -> None:
    broker = Broker(config=log_config(**SMALL))
    log = broker.log()
    for epoch in range(50):
        log.append_as_leader(batch(2), epoch)
    log.maybe_increment_high_watermark(log.local.end)
    kept = [one for one in read_all(log) if RecordBatch(one).last_offset < target]
    assert log.truncate_to(target) == (target < 100)
    end = RecordBatch(kept[-1]).next_offset if kept else 0
    assert (log.log_end_offset, log.high_watermark) == (end, end)
    assert read_all(log) == kept
    check_indexes(log)
    assert log.leader_epochs.latest_epoch == (RecordBatch(kept[-1]).partition_leader_epoch if kept else -1)
    log.append_as_leader(batch(2), 60)
    check_indexes(log)
    assert read_all(broker.restart()) == read_all(log)


def test_truncation_below_the_first_segment_starts_anew() -> None:
    log = Broker().log()
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(batch(), 0)
    assert log.truncate_to(40)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)
    assert log.append_as_leader(batch(), 0).first_offset == 40


def test_retention_by_size_keeps_what_fits() -> None:
    broker = Broker(config=log_config(**SMALL, retention_bytes=5000))
    log = broker.log()
    for _ in range(100):
        log.append_as_leader(batch(2), 0)
    assert log.delete_old_segments() == 0  # nothing is below the high watermark
    log.maybe_increment_high_watermark(log.local.end)
    assert log.delete_old_segments() > 0
    assert 5000 <= log.local.segments.size < 7000
    assert log.log_start_offset == log.local.segments.first.base_offset > 0
    assert offsets(read_all(log))[0][0] == log.log_start_offset
    names = broker.files.list_dir("/data/topic-0")
    assert any(name.endswith(".deleted") for name in names)
    broker.scheduler.tick(log.config.file_delete_delay_ms)
    assert not any(name.endswith(".deleted") for name in broker.files.list_dir("/data/topic-0"))


def test_retention_by_time_empties_the_log_and_keeps_its_offsets() -> None:
    broker = Broker(config=log_config(retention_ms=10_000))
    log = broker.log()
    log.append_as_leader(batch(5), 0)
    log.maybe_increment_high_watermark(log.local.end)
    broker.clock.advance(9_000)
    assert log.delete_old_segments() == 0
    broker.clock.advance(2_000)
    assert log.delete_old_segments() == 1
    assert (log.log_start_offset, log.log_end_offset, len(log.local.segments)) == (5, 5, 1)
    assert log.delete_old_segments() == 0
    again = broker.restart()
    assert (again.log_start_offset, again.log_end_offset) == (5, 5)
    assert again.append_as_leader(batch(), 0).first_offset == 5


def test_compacted_topic_loses_only_what_is_below_the_start() -> None:
    broker = Broker(config=log_config(**SMALL, retention_bytes=0, cleanup_policy="compact"))
    log = broker.log()
    for _ in range(100):
        log.append_as_leader(batch(2), 0)
    log.maybe_increment_high_watermark(log.local.end)
    assert log.delete_old_segments() == 0
    second, third = list(log.local.segments)[1:3]
    assert log.maybe_increment_log_start_offset(second.base_offset + 1, "client delete records request")
    assert log.delete_old_segments() == 1
    assert log.log_start_offset == second.base_offset + 1
    assert third in log.local.segments.all()
    with pytest.raises(ApiError) as caught:
        log.maybe_increment_log_start_offset(1000, "client delete records request")
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    again = broker.restart()
    assert again.log_start_offset == second.base_offset + 1


def test_a_range_outlives_its_segment() -> None:
    """What is on its way to a socket stays readable while retention deletes the file under it."""
    broker = Broker(config=log_config(**SMALL, retention_bytes=0, file_delete_delay_ms=0))
    log = broker.log()
    for _ in range(50):
        log.append_as_leader(batch(2), 0)
    log.maybe_increment_high_watermark(log.local.end)
    held = log.read(0, 1000, FetchIsolation.HIGH_WATERMARK)
    assert isinstance(held.records, FileRecords)
    before = held.records.read()
    assert log.delete_old_segments()
    broker.scheduler.tick()
    assert not broker.files.exists("/data/topic-0/00000000000000000000.log.deleted")
    assert held.records.read() == before
    held.release()
    with pytest.raises(ApiError):
        log.read(0, 100, FetchIsolation.HIGH_WATERMARK)


def test_offsets_by_timestamp() -> None:
    broker = Broker(config=log_config(**SMALL))
    log = broker.log()
    times = [NOW + (number * 37) % 400 for number in range(100)]
    for place in range(0, 100, 4):
        builder = RecordBatchBuilder()
        for timestamp in times[place : place + 4]:
            builder.append(timestamp, b"k", b"v" * 30)
        log.append_as_leader(builder.build(), place // 50)
    for current in (log, broker.restart()):
        for wanted in range(NOW - 1, NOW + 402):
            first = next((place for place, timestamp in enumerate(times) if timestamp >= wanted), None)
            found = current.offset_for_timestamp(wanted)
            if first is None:
                assert found is None
            else:
                epoch = first // 4 * 4 // 50
                assert found == TimestampAndOffset(times[first], first, epoch)
        latest = times.index(max(times))
        assert current.offset_for_timestamp(-3) == TimestampAndOffset(max(times), latest, latest // 4 * 4 // 50)
        assert current.offset_for_timestamp(-1) == TimestampAndOffset(-1, 100, 1)
        assert current.offset_for_timestamp(-2) == TimestampAndOffset(-1, 0, 0)
    assert segment_boundaries(log.local, log.log_start_offset, -1, 2, NOW)[0] == 100
    assert segment_boundaries(log.local, log.log_start_offset, -2, 5, NOW) == [0]


def test_no_timestamps_no_answer() -> None:
    log = Broker().log()
    assert log.offset_for_timestamp(-3) is None
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_timestamp(-5) == TimestampAndOffset(-1, -1, -1)


def test_full_disk_refuses_the_append_and_goes_on_when_there_is_room() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(3), 0)
    size = log.local.segments.size
    files.capacity_bytes = files.used_bytes + 50
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch(3), 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failed_dirs == []
    assert len(files.read_bytes("/data/topic-0/00000000000000000000.log")) == size
    files.capacity_bytes = None
    assert log.append_as_leader(batch(3), 0).first_offset == 3
    assert offsets(read_all(log)) == [(0, 2), (3, 5)]


@pytest.mark.parametrize("call", ["write", "sync"])
def test_disk_error_is_reported_once(call: str) -> None:
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(flush_messages=1))
    log = broker.log()
    files.fault = fault_once(call, OSError(errno.EIO, "broken"), ".log")
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch(), 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failed_dirs == ["/data"]


def test_flushes_by_message_count() -> None:
    files = SimulatedFiles()
    log = Broker(files, config=log_config(flush_messages=5)).log()
    for end, flushed in ((2, 0), (4, 0), (6, 6), (8, 6), (10, 6), (12, 12)):
        log.append_as_leader(batch(2), 0)
        assert (log.log_end_offset, log.local.recovery_point) == (end, flushed)


def test_closed_log_refuses() -> None:
    log = Broker().log()
    log.close()
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch(), 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_an_append_may_be_refused_under_the_lock() -> None:
    class Refusal(AppendGate):
        def admits(self, leader_epoch: int) -> bool:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    log = Broker().log()
    with pytest.raises(ApiError):
        log.append_as_leader(batch(), 0, admit=Refusal())
    assert log.log_end_offset == 0


def test_new_settings_hold_from_the_next_append() -> None:
    broker = Broker()
    log = broker.log()
    log.append_as_leader(batch(size=500), 0)
    broker.manager.update_log_config("topic", log_config(max_message_bytes=100))
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch(size=500), 0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_one_flush_serves_all_that_wait() -> None:
    """While one thread is in fsync others append, unhindered; the next fsync covers them all."""
    files = SimulatedFiles()
    log = Broker(files, config=log_config(flush_messages=1)).log()
    log.append_as_leader(batch(), 0)
    in_sync, all_appended = threading.Event(), threading.Event()
    syncs: list[int] = []

    def fault(call: str, path: str) -> None:
        if call == "sync" and path.endswith(".log"):
            syncs.append(log.log_end_offset)
            if len(syncs) == 1:
                in_sync.set()
                assert all_appended.wait(30)
        elif call == "write" and path.endswith(".log") and in_sync.is_set() and log.log_end_offset == 9:
            all_appended.set()  # the last of the others is being written

    files.fault = fault
    threads = [threading.Thread(target=log.append_as_leader, args=(batch(), 0)) for _ in range(9)]
    threads[0].start()
    assert in_sync.wait(30)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert log.local.recovery_point == log.log_end_offset == 10
    assert syncs[0] == 2
    assert len(syncs) <= 3
