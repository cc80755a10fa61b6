"""Readers take no lock: their segments may be renamed, removed or replaced under them, and nothing is broken then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.local_log import LocalLog, delete_files
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.log_segments import LogSegments
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NOW, PARTITION, Broker, batch, log_config, offsets, read_all

LONG = {"segment_bytes": 500, "index_interval_bytes": 100}


def read(log: UnifiedLog) -> object:
    return log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True)


def search(log: UnifiedLog) -> object:
    return log.offset_for_timestamp(NOW)


@pytest.mark.parametrize("ask", [read, search])
def test_a_reader_that_meets_a_deletion_fails_no_directory(
    ask: Callable[[UnifiedLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(3), 0)
    found = []

    def reader() -> None:
        try:
            ask(log)
        except ApiError as error:
            found.append(error.code)

    thread = threading.Thread(target=reader)
    rename = files.rename

    def slow_rename(source: str, destination: str) -> None:
        rename(source, destination)
        thread.start()  # the reader looks for the file where it was

    monkeypatch.setattr(files, "rename", slow_rename)
    broker.manager.async_delete(PARTITION)
    thread.join(10)
    assert found == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not broker.failed_dirs


@pytest.mark.interpreted
def test_a_reader_whose_segment_was_replaced_reads_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With file.delete.delay.ms=0 the old files may be gone before the reader has opened them."""
    broker = Broker(config=log_config(**LONG, file_delete_delay_ms=0))
    log = broker.log()
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    old, since = log.local.segments.all(), LogSegments.since

    def since_before(self: LogSegments, offset: int) -> object:
        monkeypatch.setattr(LogSegments, "since", since)
        log.truncate_fully_and_start_at(0)
        log.append_as_leader(batch(3), 0)
        return old

    monkeypatch.setattr(LogSegments, "since", since_before)
    data = log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True)
    assert len(data.records) > 0
    data.release()
    assert offsets(read_all(log)) == [(0, 2)]
    assert not broker.failed_dirs


@pytest.mark.interpreted
def test_a_flush_that_meets_a_deletion_fails_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no lock of the log, so that retention may delete what it is about to bring to the disk."""
    broker = Broker(config=log_config(**LONG, file_delete_delay_ms=0, retention_bytes=600))
    log = broker.log()
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    log.update_high_watermark(40)
    flush_segments = LocalLog._flush_segments

    def retention() -> None:
        before = log.local.segments.all()
        log.delete_old_segments()
        delete_files(set(before).difference(log.local.segments))

    def flush_later(self: LocalLog, segments: Sequence[LogSegment]) -> None:
        monkeypatch.setattr(LocalLog, "_flush_segments", flush_segments)
        thread = threading.Thread(target=retention)
        thread.start()
        thread.join(10)
        flush_segments(self, segments)

    monkeypatch.setattr(LocalLog, "_flush_segments", flush_later)
    log.flush()
    assert log.log_start_offset > 0
    assert log.local.recovery_point == 40
    assert not broker.failed_dirs


@pytest.mark.interpreted
def test_a_log_never_looks_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints and readers look at the first segment without a lock, also while everything is truncated."""
    broker = Broker()
    log = broker.log()
    log.append_as_leader(batch(2), 0)
    seen: list[int] = []
    replace = LogSegments._replace

    def look(self: LogSegments, by_offset: object) -> None:
        replace(self, by_offset)  # type: ignore[arg-type]
        seen.append(len(self))

    monkeypatch.setattr(LogSegments, "_replace", look)
    monkeypatch.setattr(LogSegments, "clear", lambda _: seen.append(0))
    log.truncate_fully_and_start_at(100)
    log.roll()
    assert seen
    assert 0 not in seen


def test_a_closed_log_takes_nothing_from_a_leader() -> None:
    """What was appended behind the snapshot and the mark of a stop in order would not be recovered."""
    broker = Broker()
    log = broker.log()
    log.append_as_follower(batch(2))
    log.close()
    builder = RecordBatchBuilder(base_offset=2)
    builder.append(NOW, b"key", b"value")
    with pytest.raises(ApiError) as raised:
        log.append_as_follower(builder.build())
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deleted_log_opens_its_files_no_more() -> None:
    """Else they would take room on the disk until many others have been opened."""
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(3), 0)
    broker.manager.async_delete(PARTITION)
    for ask in (read, search):
        with pytest.raises(ApiError) as raised:
            ask(log)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert files.open_files == 0
    assert not broker.failed_dirs
