"""The cleaner's process: it does what the work does in this process, ends when it should, and can die at any time."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.cleaner.child import MODULE, CleanerChild, CleaningFailed
from barnabas.storage.cleaner.cleaning_states import IN_PROGRESS, PAUSED_ONCE
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner import LogCleaner, child_process
from barnabas.storage.cleaner.log_cleaner_manager import CleanerInterrupted, CleanerLogs
from barnabas.storage.cleaner.messages import (
    CleanerWorker,
    DirtySegment,
    GroupRequest,
    GroupResult,
    MapRequest,
    MapResult,
)
from barnabas.storage.cleaner.process import BUILD_MAP
from barnabas.storage.cleaner.work import CleanerWork
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_manager import LogManager
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.unit.storage.cleaner_harness import append, stored
from tests.unit.storage.log_harness import NOW, PARTITION, log_config

NO_THREADS = CleanerConfig(threads=0)
ENDLESS = 10_000
"""Times a segment is read, at a byte a second: from the first look of the throttle on the process sleeps."""


class Endless(CleanerChild):
    """A cleaning that does not end by itself."""

    def build_map(self, request: MapRequest) -> MapResult:
        return super().build_map(request._replace(segments=list(request.segments) * ENDLESS, bytes_per_second=1.0))


@contextmanager
def dirty_log(
    directory: Path, config: CleanerConfig, make_worker: Callable[[], CleanerWorker] = child_process
) -> Iterator[tuple[LogCleaner, UnifiedLog]]:
    """A log on the real disk with something to clean."""
    files, clock = OperatingSystemFiles(), SystemClock()

    def make_cleaner(log_dirs: Sequence[str], logs: CleanerLogs) -> LogCleaner:
        return LogCleaner(config, log_dirs, logs, files, clock, make_worker=make_worker)

    settings = log_config(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0", segment_bytes=2000)
    scheduler = MockScheduler(MockClock())
    directories = LogDirectories([str(directory)], files, lambda _log_dir: None)
    directories.open()
    manager = LogManager(directories, files, scheduler, clock, LogManagerConfig(), lambda _topic: settings)
    manager.startup(make_cleaner=make_cleaner)
    assert manager.cleaner is not None
    log = manager.get_or_create_log(PARTITION)
    with manager.cleaner.manager._changed:  # no cleaning begins before all is there
        for number in range(200):
            append(log, (b"key%d" % (number % 7), b"v" * 50), timestamp=NOW)
        log.roll()
    try:
        yield manager.cleaner, log
    finally:
        manager.shutdown()


def test_a_process_keeps_what_this_process_keeps(tmp_path: Path) -> None:
    kept = []
    for name, make_worker in (("here", lambda: CleanerWork(OperatingSystemFiles())), ("there", child_process)):
        with dirty_log(tmp_path / name, NO_THREADS, make_worker) as (cleaner, log):
            assert cleaner.clean_once()
            kept.append(stored(log))
            assert not cleaner.clean_once()
    assert kept[0] == kept[1]
    assert [offset for offset, _, _ in kept[0]] == list(range(193, 200))


def test_files_keep_the_time_of_their_last_record(tmp_path: Path) -> None:
    with dirty_log(tmp_path, NO_THREADS) as (cleaner, log):
        for segment in log.local.segments:
            os.utime(segment.file.path, (1_600_000_000, 1_600_000_000))
        assert cleaner.clean_once()
        first = log.local.segments.first.file.path
        assert os.stat(first).st_mtime == 1_600_000_000


def test_whoever_wants_the_log_ends_its_cleaning(tmp_path: Path) -> None:
    config = CleanerConfig(threads=1, backoff_ms=1)
    with dirty_log(tmp_path, config, lambda: Endless("endless")) as (cleaner, log):
        before = stored(log)
        changed = cleaner.manager._changed
        with changed:
            assert changed.wait_for(lambda: cleaner.manager.state(PARTITION) == IN_PROGRESS, 30)
        cleaner.manager.abort_and_pause(PARTITION)
        assert cleaner.manager.state(PARTITION) == PAUSED_ONCE
        assert stored(log) == before
        assert not [name for name in os.listdir(log.directory) if name.endswith(".cleaned")]
        cleaner.manager.resume([PARTITION])
        with changed:
            assert changed.wait_for(lambda: cleaner.manager.state(PARTITION) == IN_PROGRESS, 30)
    # Leaving has shut the manager down, with a cleaning under way.
    assert cleaner.manager.state(PARTITION) is None
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kafka-log-cleaner")]


class Dying(CleanerChild):
    """Its process is killed as soon as it is to copy something."""

    def __init__(self) -> None:
        super().__init__("dying")
        self.deaths = 0

    def clean_group(self, request: GroupRequest) -> GroupResult:
        assert self.process_id is not None
        os.kill(self.process_id, signal.SIGKILL)
        self.deaths += 1
        return super().clean_group(request)


def test_a_log_whose_process_dies_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    dying = Dying()
    config = CleanerConfig(threads=1, backoff_ms=1)
    with dirty_log(tmp_path, config, lambda: dying) as (cleaner, log):
        before = stored(log)
        changed = cleaner.manager._changed
        with changed:
            assert changed.wait_for(lambda: len(cleaner.manager.uncleanable_partitions(str(tmp_path))) == 1, 60)
        assert dying.deaths == 3
        assert cleaner.dead_thread_count == 0
        assert stored(log) == before
        append(log, (b"more", b"v"), timestamp=NOW)


def test_what_goes_wrong_there_is_raised_here(tmp_path: Path) -> None:
    child = CleanerChild("test")
    missing, damaged = tmp_path / "missing.log", tmp_path / "damaged.log"
    damaged.write_bytes(b"\x00" * 100)

    def request(path: Path) -> MapRequest:
        return MapRequest(0, [DirtySegment(str(path), 0, 100, 1)], [], 1 << 20, 0.9, 1000, float("inf"))

    with pytest.raises(CleanerInterrupted):
        child.build_map(request(missing))  # nobody has opened it
    try:
        child.open()
        with pytest.raises(OSError, match=r"missing\.log") as raised:
            child.build_map(request(missing))
        assert raised.value.errno == errno.ENOENT
        with pytest.raises(CleaningFailed, match="CorruptRecord"):
            child.build_map(request(damaged))
        assert child.process_id is not None
        child.interrupt()
        with pytest.raises(CleanerInterrupted, match="ended with status -9"):
            child.build_map(request(damaged))
    finally:
        child.close()


def test_it_ends_with_its_broker(tmp_path: Path) -> None:
    """Whatever it is doing: its input ends when the broker is gone."""
    with dirty_log(tmp_path, NO_THREADS) as (_, log):
        segment = log.local.segments.first
        segments = [DirtySegment(segment.file.path, 0, segment.size, 1)] * ENDLESS
        endless = MapRequest(0, segments, [], 1 << 20, 0.9, 1000, 1.0)
        process = subprocess.Popen([sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([BUILD_MAP, endless]).encode() + b"\n")
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout.read() == b""
        process.stdout.close()


def test_a_process_that_was_ended_between_two_cleanings_is_replaced() -> None:
    """An abort may come when its cleaning asks for nothing: the next log must not suffer for it."""
    child = CleanerChild("test")
    try:
        child.open()
        first = child.process_id
        child.interrupt()
        child.open()
        assert child.process_id != first
        assert child.build_map(MapRequest(0, [], [], 1000, 0.9, 1000, 1e9)).latest_offset == -1
    finally:
        child.close()
