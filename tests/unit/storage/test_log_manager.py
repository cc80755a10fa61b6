"""All logs of a broker: start, several directories, failures, deletion, background tasks."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.directories.log_dir import DirectoryLock
from barnabas.storage.errors import InconsistentMetaProperties, InconsistentTopicId, LogDirectoryLocked
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.file_names import deleted_dir_name, parse_partition_dir
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.storage_metrics import LoadingMetrics
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import (
    BROKER,
    PARTITION,
    Broker,
    batch,
    fault_once,
    log_config,
    offsets,
    read_all,
)

TOPIC_ID = bytes(range(16))


def partition(number: int) -> TopicPartition:
    return TopicPartition("topic", number)


def test_clean_stop_and_start_skip_recovery() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    broker.log().append_as_leader(batch(3), 0)
    broker.manager.shutdown()
    assert files.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":"0","broker_epoch":"-1"}'
    assert files.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 3\n"
    assert files.open_files == 0
    broker.start()
    assert not files.exists("/data/.kafka_cleanshutdown")
    assert broker.log().local.recovery_point == 3
    assert offsets(read_all(broker.log())) == [(0, 2)]


def test_a_start_shows_what_it_has_still_to_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs by directory, segments by thread, while the logs are loaded; nothing afterwards."""
    broker = Broker(config=log_config(segment_bytes=500))
    for number in range(3):
        for _ in range(20):
            broker.log(partition(number)).append_as_leader(batch(2), 0)
    broker.files.kill()  # type: ignore[attr-defined]
    seen: list[dict[str, float]] = []
    recover = LogSegment.recover

    def watched(segment: LogSegment, *args: Any, **kwargs: Any) -> Any:
        seen.append({sample.name.name: sample.value for sample in LoadingMetrics(manager).samples()})
        return recover(segment, *args, **kwargs)

    monkeypatch.setattr(LogSegment, "recover", watched)
    manager = broker.new_manager()
    manager.startup()
    logs = [each["remainingLogsToRecover"] for each in seen]
    segments = [int(each["remainingSegmentsToRecover"]) for each in seen]
    assert sorted(set(logs), reverse=True) == [3, 2, 1]
    of_one_log = max(segments)
    assert of_one_log > 2
    assert segments == [*range(of_one_log, 0, -1)] * 3
    assert not list(LoadingMetrics(manager).samples())


def test_flushes_are_timed_segment_by_segment() -> None:
    broker = Broker(config=log_config(segment_bytes=500))
    log = broker.log()
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    before = broker.manager.flushes.meter.count
    log.flush()
    assert broker.manager.flushes.meter.count - before == len(log.local.segments)


def test_clean_stop_survives_power_failure() -> None:
    """Everything that the mark vouches for is on the disk before the mark is."""
    for seed in range(20):
        broker = Broker(SimulatedFiles(), config=log_config(segment_bytes=500, index_interval_bytes=100), seed=seed)
        log = broker.log()
        for _ in range(30):
            log.append_as_leader(batch(2), 0)
        before = read_all(log)
        broker.manager.shutdown()
        log = broker.crash()
        assert log.local.recovery_point == 60
        assert read_all(log) == before


@pytest.mark.parametrize("clean", [True, False])
def test_start_given_up_before_loading_changes_nothing(clean: bool) -> None:
    """A broker that stops because another one owns its id must not vouch for logs it never looked at."""
    files = SimulatedFiles()
    broker = Broker(files)
    broker.log().append_as_leader(batch(3), 0)
    broker.manager.checkpoints.write_recovery_points()
    if clean:
        broker.manager.shutdown()
    files.kill()
    before = {name: files.read_bytes(f"/data/{name}") for name in files.list_dir("/data") if name != "topic-0"}
    manager = broker.new_manager()
    manager.shutdown()
    assert {name: files.read_bytes(f"/data/{name}") for name in files.list_dir("/data") if name != "topic-0"} == before


def test_logs_go_to_the_emptiest_directory() -> None:
    broker = Broker(log_dirs=("/a", "/b"))
    for number in range(6):
        broker.log(partition(number)).append_as_leader(batch(), 0)
    by_dir = [broker.log(partition(number)).parent_dir for number in range(6)]
    assert (by_dir.count("/a"), by_dir.count("/b")) == (3, 3)
    broker.restart()
    assert [broker.log(partition(number)).parent_dir for number in range(6)] == by_dir
    assert all(broker.log(partition(number)).log_end_offset == 1 for number in range(6))


def test_topic_id_is_written_before_the_first_record() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.manager.get_or_create_log(PARTITION, topic_id=TOPIC_ID)
    assert not files.exists("/data/topic-0/partition.metadata")
    log.append_as_leader(batch(), 0)
    assert files.exists("/data/topic-0/partition.metadata")
    broker.restart()
    assert broker.manager.get_or_create_log(PARTITION, topic_id=TOPIC_ID).topic_id == TOPIC_ID
    with pytest.raises(InconsistentTopicId):
        broker.manager.get_or_create_log(PARTITION, topic_id=bytes(16))


def test_topic_id_of_an_idle_log_is_written_in_the_background() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    broker.manager.get_or_create_log(PARTITION, topic_id=TOPIC_ID)
    broker.scheduler.tick()
    assert files.exists("/data/topic-0/partition.metadata")


def test_deleted_log_goes_after_its_delay_and_can_be_made_again() -> None:
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(file_delete_delay_ms=1000))
    log = broker.log()
    log.append_as_leader(batch(3), 0)
    log.maybe_increment_high_watermark(log.local.end)
    held = log.read(0, 100, FetchIsolation.LOG_END)
    broker.manager.async_delete(PARTITION)
    assert broker.manager.get_log(PARTITION) is None
    (doomed,) = [name for name in files.list_dir("/data") if name.endswith("-delete")]
    assert parse_partition_dir(doomed) is None
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch(), 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.log().log_end_offset == 0
    broker.scheduler.tick(999)
    assert files.exists(f"/data/{doomed}")
    broker.scheduler.tick(1)
    assert not files.exists(f"/data/{doomed}")
    held.release()


def test_deletion_goes_on_after_a_restart() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    broker.log().append_as_leader(batch(), 0)
    broker.manager.async_delete(PARTITION)
    broker.kill()
    broker.scheduler.tick(30_000)
    assert not any(name.endswith("-delete") for name in files.list_dir("/data"))


def test_name_of_a_deleted_directory_fits_file_systems() -> None:
    name = deleted_dir_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(name) == 255
    assert name.endswith("-12." + "0" * 32 + "-delete")


def test_failed_directory_goes_offline_and_the_other_works() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    logs = [broker.log(partition(number)) for number in range(2)]
    files.fault = fault_once("write", OSError(errno.EIO, "broken"), "00000000000000000000.log")
    with pytest.raises(ApiError):
        logs[0].append_as_leader(batch(), 0)
    assert broker.failed_dirs == [logs[0].parent_dir]
    assert broker.manager.fail_log_dir(logs[0].parent_dir) == [partition(0)]
    assert broker.manager.directories.online_paths() == [logs[1].parent_dir]
    assert broker.manager.get_log(partition(0)) is None
    logs[1].append_as_leader(batch(), 0)
    assert broker.log(partition(5)).parent_dir == logs[1].parent_dir


def test_directory_that_cannot_be_read_at_start_is_left_out() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    for number in range(2):
        broker.log(partition(number)).append_as_leader(batch(), 0)
    files.fault = lambda call, path: OSError(errno.EIO, "broken") if path.startswith("/a") and call == "read" else None
    files.kill()
    broker.start()
    assert broker.manager.directories.online_paths() == ["/b"]
    assert [log.parent_dir for log in broker.manager.all_logs()] == ["/b"]
    assert broker.failed_dirs == ["/a"]
    lost = 1 - broker.manager.all_logs()[0].topic_partition.partition
    with pytest.raises(ApiError) as caught:
        broker.manager.get_or_create_log(partition(lost), is_new=False)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_no_directory_left_is_an_error() -> None:
    files = SimulatedFiles()
    Broker(files).log().append_as_leader(batch(), 0)
    files.kill()
    files.fault = lambda call, path: OSError(errno.EIO, "broken") if path.endswith(".log") else None
    with pytest.raises(OSError, match=r"all log dirs in .data have failed"):
        Broker(files)


def test_same_partition_in_two_directories_is_refused() -> None:
    files = SimulatedFiles()
    for directory in ("/a", "/b"):
        files.make_dirs(f"{directory}/topic-0")
    broker = Broker(files, log_dirs=("/a", "/b"))
    assert broker.manager.directories.online_paths() == ["/a"]


def test_background_tasks() -> None:
    files = SimulatedFiles()
    config = LogManagerConfig(flush_check_ms=1000, retention_check_ms=60_000, initial_task_delay_ms=500)
    broker = Broker(files, config=log_config(flush_ms=2000, retention_ms=10_000), manager_config=config)
    log = broker.log()
    log.append_as_leader(batch(2, timestamp=broker.clock.milliseconds()), 0)
    log.maybe_increment_high_watermark(log.local.end)
    broker.scheduler.tick(600)
    assert log.local.recovery_point == 0
    for _ in range(3):
        broker.scheduler.tick(1000)
    assert log.local.recovery_point == 2
    broker.scheduler.tick(60_000)
    assert files.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 2\n"
    broker.scheduler.tick(60_000)
    assert log.log_start_offset == 2
    assert "kafka-log-retention" in broker.scheduler.waiting


def test_settings_come_from_the_properties_file() -> None:
    config = LogManagerConfig.from_kafka_config(BROKER)
    assert config == LogManagerConfig()


def test_meta_properties_mark_the_directories() -> None:
    files = SimulatedFiles()
    broker = Broker(files, log_dirs=("/a", "/b"))
    broker.directories.check_and_write_meta_properties("cluster", 1)
    broker.restart()
    assert {found.broker_id for found in broker.directories.meta_properties().values() if found} == {1}
    for cluster, number in (("other", 1), ("cluster", 2)):
        with pytest.raises(InconsistentMetaProperties):
            broker.directories.check_and_write_meta_properties(cluster, number)


def test_open_files_are_bounded() -> None:
    files = SimulatedFiles()
    broker = Broker(files, manager_config=LogManagerConfig(open_files=10))
    for number in range(50):
        broker.log(partition(number)).append_as_leader(batch(), 0)
    assert files.open_files <= 10
    held = [broker.log(partition(number)).read(0, 100, FetchIsolation.LOG_END) for number in range(50)]
    assert files.open_files >= 50  # what is on its way out keeps its file
    for one in held:
        one.release()
    assert files.open_files <= 10
    assert all(offsets(read_all(broker.log(partition(number)))) == [(0, 0)] for number in range(50))


def test_directory_lock_keeps_others_out(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(LogDirectoryLocked, match="using this directory"):
        DirectoryLock(str(tmp_path))
    lock.release()
    DirectoryLock(str(tmp_path)).release()


def test_a_deletion_in_the_midst_of_a_flush_fails_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush finds the directory renamed: that is no disk error."""
    broker = Broker()
    log = broker.log()
    log.append_as_leader(batch(1), 3)
    checkpoint = log.leader_epochs._checkpoint

    def deleted_meanwhile(_: object) -> None:
        monkeypatch.undo()
        log.close_handlers()  # what a deletion does before it renames the directory
        raise FileNotFoundError(log.directory)

    monkeypatch.setattr(type(checkpoint), "write", lambda _, entries: deleted_meanwhile(entries))
    broker.scheduler.tick()
    assert not broker.failed_dirs


def _moving(files: SimulatedFiles, directory: str = "/b") -> str:
    """Partition 0 with three records in /a, and a future log with two of them, as a broker that was moving it left."""
    broker = Broker(files, log_dirs=("/a", "/b"))
    broker.log().append_as_leader(batch(2), 0)
    broker.manager.shutdown()
    path = f"{directory}/topic-0.{'0f' * 16}-future"
    files.make_dirs(path)
    for name in files.list_dir("/a/topic-0"):
        files.write_bytes(f"{path}/{name}", files.read_bytes(f"/a/topic-0/{name}"))
    broker.start()
    broker.log().append_as_leader(batch(), 0)
    broker.manager.shutdown()
    return path


@pytest.mark.parametrize("end", [Broker.restart, Broker.kill, Broker.crash])
def test_a_future_log_is_loaded_and_kept_beside_the_current_one(end: Callable[[Broker], object]) -> None:
    files = SimulatedFiles()
    path = _moving(files)
    broker = Broker(files, log_dirs=("/a", "/b"))
    for _ in range(2):
        future = broker.manager.futures.get(PARTITION)
        assert future is not None
        assert (future.directory, future.log_end_offset) == (path, 2)
        assert (broker.log().directory, broker.log().log_end_offset) == ("/a/topic-0", 3)
        assert broker.manager.all_logs() == [broker.log()]
        assert broker.manager.logs_in("/b") == broker.manager.futures.all() == [future]
        end(broker)
    # Settings of the topic reach both; a directory with a future log holds a log as any other does.
    broker.manager.update_log_config("topic", log_config(retention_ms=77))
    assert [log.config.retention_ms for log in broker.manager.futures.all()] == [77]
    assert broker.log(partition(1)).parent_dir == "/a"
    assert broker.log(partition(2)).parent_dir == "/b"


def test_a_deleted_topic_takes_its_future_log_along() -> None:
    files = SimulatedFiles()
    path = _moving(files)
    broker = Broker(files, log_dirs=("/a", "/b"))
    broker.manager.async_delete(PARTITION)
    assert broker.manager.futures.get(PARTITION) is None
    assert not files.exists(path)
    broker.crash()
    assert broker.manager.futures.all() == []
    broker.scheduler.tick(60_000)
    assert not any(name.endswith("-delete") for name in files.list_dir("/b"))


def test_a_disk_error_at_a_future_log_leaves_the_current_one() -> None:
    files = SimulatedFiles()
    _moving(files)
    broker = Broker(files, log_dirs=("/a", "/b"))
    assert broker.manager.fail_log_dir("/b") == []
    assert broker.manager.futures.get(PARTITION) is None
    assert broker.log().log_end_offset == 3

    broker = Broker(files, log_dirs=("/a", "/b"))
    files.fault = fault_once("rename", OSError(errno.EIO, "broken"), "-future")
    broker.manager.async_delete(PARTITION)
    assert broker.failed_dirs == ["/b"]
    assert not files.exists("/a/topic-0")


def test_future_directories_that_no_move_can_have_made_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    _moving(files, directory="/a")
    files.make_dirs("/b/topic-future")
    broker = Broker(files, log_dirs=("/a", "/b"))
    assert broker.manager.directories.online_paths() == ["/a", "/b"]
    assert broker.manager.futures.all() == []
    assert broker.log().log_end_offset == 3
    assert "the partition's current log is in this log directory too" in caplog.text
    assert "its name is not <topic>-<partition>.<unique>-future" in caplog.text


def test_two_future_logs_of_one_partition_are_refused() -> None:
    files = SimulatedFiles()
    _moving(files)
    files.make_dirs(f"/c/topic-0.{'1e' * 16}-future")
    broker = Broker(files, log_dirs=("/a", "/b", "/c"))
    assert broker.manager.directories.online_paths() == ["/a", "/b"]
    assert [log.log_end_offset for log in broker.manager.futures.all()] == [2]
