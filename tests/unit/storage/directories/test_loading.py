"""Loading at start, making and deleting logs when directories fail or are full: the parts of LogManager."""

from __future__ import annotations

import errno
import logging
import threading
from pathlib import Path

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.directories.loading import run_per_directory
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import PARTITION, Broker, batch, fault_once, log_config, offsets, read_all

BROKEN = OSError(errno.EIO, "broken")
FULL = OSError(errno.ENOSPC, "full")
ID, OTHER_ID = bytes(range(16)), bytes(16)


def _partition(number: int) -> TopicPartition:
    return TopicPartition("topic", number)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("clean", [True, False])
def test_many_logs_in_several_directories(
    tmp_path: Path, clean: bool, threads: int, caplog: pytest.LogCaptureFixture
) -> None:
    """On a real file system: the threads that load share it."""
    log_dirs = (str(tmp_path / "a"), str(tmp_path / "b"))
    config = LogManagerConfig(recovery_threads_per_dir=threads)
    broker = Broker(OperatingSystemFiles(), log_dirs=log_dirs, manager_config=config)
    for number in range(60):
        broker.log(_partition(number)).append_as_leader(batch(number % 5 + 1), 0)
    before = {number: read_all(broker.log(_partition(number))) for number in range(60)}
    if clean:
        broker.manager.shutdown()
    with caplog.at_level(logging.INFO):
        broker.start()
    assert {number: read_all(broker.log(_partition(number))) for number in range(60)} == before
    assert len(broker.manager.all_logs()) == 60
    lines = [record.getMessage() for record in caplog.records]
    for log_dir in log_dirs:
        done = [line for line in lines if line.endswith(f"completed in {log_dir})")]
        counts = {line.rpartition("(")[2].partition(" ")[0] for line in done}
        assert counts == {f"{number}/30" for number in range(1, 31)}
    recovered = [line for line in lines if line.startswith("Recovering unflushed segment 0. 0/1 recovered for")]
    assert len(recovered) == (0 if clean else 60)


def test_a_log_that_cannot_be_read_takes_its_directory_out_and_what_was_loaded_of_it() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"), manager_config=LogManagerConfig(recovery_threads_per_dir=3))
    for number in range(20):
        broker.log(_partition(number)).append_as_leader(batch(), 0)
    in_b = {log.topic_partition for log in broker.manager.logs_in("/b")}
    files.kill()
    files.fault = lambda _call, path: BROKEN if path.startswith("/a/topic-10/") else None
    broker.start()
    assert broker.manager.directories.online_paths() == ["/b"]
    assert broker.manager.directories.offline_paths() == ["/a"]
    assert {log.topic_partition for log in broker.manager.all_logs()} == in_b
    assert broker.failed_dirs == ["/a"]
    broker.manager.shutdown()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")
    assert files.open_files == 0


def test_a_directory_whose_owner_cannot_be_read_is_left_out() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    broker.directories.check_and_write_meta_properties("cluster", 1)
    files.kill()
    files.fault = lambda call, path: BROKEN if call == "read" and path == "/a/meta.properties" else None
    manager = broker.new_manager()
    assert list(broker.directories.meta_properties()) == ["/b"]
    broker.directories.check_and_write_meta_properties("cluster", 1)
    manager.startup()
    assert manager.directories.online_paths() == ["/b"]


def test_a_log_is_made_in_the_next_directory_when_one_fails() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    files.fault = lambda call, path: BROKEN if call == "make_dirs" and path.startswith("/a/") else None
    assert broker.log().parent_dir == "/b"
    assert broker.failed_dirs == ["/a"]


def test_a_full_disk_refuses_new_logs_and_is_used_again_when_there_is_room() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    files.fault = lambda call, _path: FULL if call == "make_dirs" else None
    with pytest.raises(ApiError) as caught:
        broker.log()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.manager.directories.online_paths() == ["/a", "/b"]
    files.fault = None
    assert broker.log().append_as_leader(batch(), 0).first_offset == 0


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_checkpoint_on_a_full_disk_is_written_later(name: str) -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(5), 0)
    log.flush()
    log.update_high_watermark(5)
    log.maybe_increment_log_start_offset(3, "a test")
    for error, failed in ((FULL, []), (None, []), (BROKEN, ["/data"])):
        files.fault = fault_once("write", error, f"{name}.tmp") if error else None
        log.append_as_leader(batch(), 0)
        log.flush()
        log.update_high_watermark(log.log_end_offset)
        log.maybe_increment_log_start_offset(log.log_start_offset + 1, "a test")
        broker.manager.checkpoints.write_recovery_points()
        broker.manager.checkpoints.write_log_start_offsets()
        assert broker.failed_dirs == failed
        if not error:
            expected = log.local.recovery_point if name.startswith("recovery") else log.log_start_offset
            assert files.read_bytes(f"/data/{name}") == b"0\n1\ntopic 0 %d\n" % expected


def test_checkpoints_are_written_when_something_has_moved() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(), 0)
    log.flush()
    broker.manager.checkpoints.write_recovery_points()
    files.calls.clear()
    broker.manager.checkpoints.write_recovery_points()
    broker.manager.checkpoints.write_log_start_offsets()
    assert not files.calls


def test_a_failed_sync_is_a_failed_disk_even_when_it_is_full() -> None:
    """What it was to write may be lost: the next sync would say nothing of it."""
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(), 0)
    files.fault = fault_once("sync", FULL, ".log")
    with pytest.raises(ApiError):
        log.flush()
    assert log.local.recovery_point == 0
    assert broker.failed_dirs == ["/data"]


def test_a_log_of_an_earlier_topic_is_put_aside() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.manager.get_or_create_log(PARTITION, topic_id=ID)
    log.append_as_leader(batch(3), 0)
    broker.manager.shutdown()
    manager = broker.new_manager()
    manager.startup(is_stray=lambda found: found.topic_id != OTHER_ID)
    (stray,) = [name for name in files.list_dir("/data") if name.endswith("-stray")]
    assert stray.startswith("topic-0.")
    assert manager.get_log(PARTITION) is None
    assert manager.get_or_create_log(PARTITION, topic_id=OTHER_ID).log_end_offset == 0
    manager.shutdown()
    manager = broker.new_manager()
    manager.startup()
    assert files.exists(f"/data/{stray}/00000000000000000000.log")
    assert [log.topic_id for log in manager.all_logs()] == [OTHER_ID]


def test_a_deletion_is_not_undone_under_the_log_that_follows() -> None:
    """Killed between the rename and its sync; a log of the same name is made; then the power goes off."""
    for seed in range(20):
        files = SimulatedFiles()
        broker = Broker(files, seed=seed)
        log = broker.log()
        log.append_as_leader(batch(5), 0)
        log.flush()
        files.fault = fault_once("sync_dir", BROKEN)
        with pytest.raises(ApiError):
            broker.manager.async_delete(PARTITION)
        broker.kill().append_as_leader(batch(2), 0)
        assert offsets(read_all(broker.log())) == [(0, 1)]
        assert offsets(read_all(broker.crash())) in ([], [(0, 1)])


def test_deleting_what_may_lie_in_a_failed_directory_fails() -> None:
    broker = Broker(log_dirs=("/a", "/b"))
    broker.log(_partition(0))
    gone, there = _partition(0), _partition(1)
    failing = broker.log(gone).parent_dir
    broker.log(there)
    broker.manager.fail_log_dir(failing)
    with pytest.raises(ApiError) as caught:
        broker.manager.async_delete(gone)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    broker.manager.async_delete(there)
    assert not broker.manager.all_logs()


def test_a_damaged_log_that_was_closed_in_order_keeps_no_broker_from_starting() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    for _ in range(3):
        log.append_as_leader(batch(2), 0)
    broker.log(_partition(1)).append_as_leader(batch(), 0)
    broker.manager.shutdown()
    path = "/data/topic-0/00000000000000000000.log"
    data = bytearray(files.read_bytes(path))
    size = len(data) // 3
    data[size * 2 + 8 : size * 2 + 12] = bytes(4)  # the last batch claims no length
    files.write_bytes(path, bytes(data))
    broker.start()
    assert offsets(read_all(broker.log())) == [(0, 1), (2, 3)]
    assert broker.log(_partition(1)).log_end_offset == 1
    assert broker.log().append_as_leader(batch(), 0).first_offset == 4


@pytest.mark.parametrize("clean", [True, False])
def test_damage_before_the_recovery_point_is_its_readers_to_meet(clean: bool) -> None:
    """Where the log begins, too: nobody has to look there before somebody reads."""
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(segment_bytes=500))
    log = broker.log()
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    log.flush()
    broker.manager.checkpoints.write_recovery_points()
    if clean:
        broker.manager.shutdown()
    path = "/data/topic-0/00000000000000000000.log"
    data = bytearray(files.read_bytes(path))
    data[8:12] = bytes(4)
    files.write_bytes(path, bytes(data))
    if not clean:
        files.kill()
    broker.start()
    log = broker.log()
    log.update_high_watermark(40)
    with pytest.raises(ApiError) as caught:
        log.read(0, 1000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.append_as_leader(batch(), 0).first_offset == 40
    assert not broker.failed_dirs


def test_what_goes_wrong_on_a_thread_reaches_the_caller() -> None:
    met = threading.Barrier(2, timeout=10)
    done: list[str] = []

    def meet() -> None:
        met.wait()

    def fail() -> None:
        met.wait()
        raise KeyError("of a thread")

    tasks = {"/a": [fail, lambda: done.append("/a")], "/b": [meet, lambda: done.append("/b")]}
    errors = run_per_directory(tasks, 1, "test")
    assert list(errors) == ["/a"]
    assert isinstance(errors["/a"], KeyError)
    assert done == ["/b"]


def test_a_killed_broker_recovers_what_a_full_disk_left() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    log.append_as_leader(batch(2), 0)
    files.capacity_bytes = files.used_bytes + 40
    with pytest.raises(ApiError):
        log.append_as_leader(batch(2), 0)
    assert not broker.failed_dirs
    files.capacity_bytes = None
    log.append_as_leader(batch(3), 0)
    assert offsets(read_all(broker.kill())) == [(0, 1), (2, 4)]
