"""The room that a log directory keeps: whatever write finds the disk full, nothing acknowledged is lost."""

from __future__ import annotations

import errno
import logging
from contextlib import suppress

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.directories.log_dir import LEAST_RESERVE_BYTES, RESERVE_FILE
from barnabas.storage.log.unified_log import UnifiedLog
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import LOG_DIR, Broker, batch, log_config, offsets, read_all

OTHER = TopicPartition("other", 0)
RESERVE = f"{LOG_DIR}/{RESERVE_FILE}"
CALLS = ("write", "open", "allocate", "truncate")


def appended(log: UnifiedLog, size: int) -> tuple[int, int] | None:
    """Append a batch. Return its offsets, None when the disk is full; any other error fails the test."""
    try:
        info = log.append_as_leader(batch(2, size=size), 0)
    except ApiError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return None
    return info.first_offset, info.last_offset


def test_a_full_disk_pauses_appends_until_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles(capacity_bytes=5 * LEAST_RESERVE_BYTES)
    broker = Broker(files)
    log, other = broker.log(), broker.log(OTHER)
    broker.directories.keep_room()
    assert files.exists(RESERVE)
    acknowledged = 0
    with caplog.at_level(logging.ERROR):
        while appended(log, 10_000):
            acknowledged += 1
        assert not files.exists(RESERVE), "what was kept is free now"
        free = files.free_bytes(LOG_DIR)
        for each in (log, other) * 5:
            with pytest.raises(ApiError) as again:
                each.append_as_leader(batch(1, size=1), 0)
            assert again.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(ApiError, match="No room for new logs"):
            broker.manager.require_room()
    assert files.free_bytes(LOG_DIR) == free >= LEAST_RESERVE_BYTES, "no record takes it"
    assert len(caplog.records) == 1, "it is said once"
    broker.manager.async_delete(OTHER)
    files.capacity_bytes = None
    log.append_as_leader(batch(1, size=1), 0)
    broker.manager.require_room()
    assert files.exists(RESERVE)
    assert log.log_end_offset == 2 * acknowledged + 1
    broker.manager.shutdown()
    assert not files.exists(RESERVE), "an orderly stop, and the next start, have its room"
    assert not broker.failed_dirs


def test_a_start_on_a_full_disk_takes_no_records_and_stops_in_order() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    broker.log().append_as_leader(batch(1, size=10_000), 0)
    files.kill()
    files.capacity_bytes = files.used_bytes + LEAST_RESERVE_BYTES
    broker.start()
    broker.directories.keep_room()
    log = broker.log()
    assert len(read_all(log)) == 1
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(1, size=1), 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log = broker.restart()
    assert broker.directories.online()[0].had_clean_shutdown
    assert len(read_all(log)) == 1


class FullFrom:
    """A disk that has no room from one call on, until `has_room`."""

    def __init__(self, first: int) -> None:
        self.left = first
        self.has_room = False
        self.was_full = False

    def __call__(self, call: str, path: str) -> OSError | None:
        if call not in CALLS or self.has_room or (call == "open" and path.endswith(".lock")):
            return None
        self.left -= 1
        if self.left >= 0:
            return None
        self.was_full = True
        return OSError(errno.ENOSPC, "full")


def test_without_room_from_any_call_on_nothing_acknowledged_is_lost() -> None:
    """The same work, with the disk full from its first, second, ... call on; then there is room again, or a stop."""
    number = 0
    while _work_on_full_disk(number, stops=number % 2 == 1):
        number += 1
    assert number > 20


def _work_on_full_disk(number: int, *, stops: bool) -> bool:
    """Return whether the disk was full before the work was done."""
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(segment_bytes=2_000, flush_messages=3))
    log = broker.log()
    broker.directories.keep_room()
    fault = files.fault = FullFrom(number)
    acknowledged: list[tuple[int, int]] = []
    acknowledged += [offsets_of for _ in range(12) if (offsets_of := appended(log, 300))]
    for task in (log.flush, log.delete_old_segments, broker.manager.checkpoints.write_recovery_points):
        with suppress(ApiError):
            task()
    assert not broker.failed_dirs, "a full disk is no broken one"
    assert [each for each in offsets(read_all(log)) if each in acknowledged] == acknowledged
    if stops:
        broker.manager.shutdown()
    fault.has_room = True
    if stops:
        broker.start()
        log = broker.log()
    last = appended(log, 300)
    assert last is not None, "there is room again"
    acknowledged.append(last)
    for again in (broker.restart, broker.kill):
        stored = offsets(read_all(again()))
        assert [each for each in stored if each in acknowledged] == acknowledged
        assert len(stored) == len(set(stored))
    return fault.was_full
