"""Moves of a log into another log directory: equal files, what the log keeps, and crashes at every step."""

from __future__ import annotations

import errno
import random
from contextlib import suppress

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.file_names import (
    FUTURE_DIR_SUFFIX,
    LOG_SUFFIX,
    MOVED_FROM_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    segment_file_name,
)
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.producers.state_manager import MANY_PRODUCERS
from tests.support.simulated_files import PowerOff, SimulatedFiles
from tests.unit.storage.log_harness import (
    NOW,
    PARTITION,
    Broker,
    batch,
    check_indexes,
    fault_once,
    log_config,
    read_all,
)

DIRS = ("/a", "/b")
SMALL_SEGMENTS = log_config(segment_bytes=600, index_interval_bytes=100)
COPY_BYTES = 500


def moving_broker(seed: int = 0) -> Broker:
    """A broker with two directories, and a log of several segments in the first."""
    broker = Broker(SimulatedFiles(), config=SMALL_SEGMENTS, log_dirs=DIRS, seed=seed)
    log = broker.log()
    assert log.parent_dir == "/a"
    log.assign_topic_id(bytes(range(16)))
    append(log, 20, broker.random)
    return broker


def append(log: UnifiedLog, batches: int, chance: random.Random, epoch: int = 0) -> None:
    for _ in range(batches):
        log.append_as_leader(batch(chance.randint(1, 3), chance=chance), epoch)
    log.update_high_watermark(log.log_end_offset)


def segment_files(broker: Broker, log: UnifiedLog) -> dict[str, bytes]:
    """The log files of a log, by name."""
    names = broker.files.list_dir(log.directory)
    return {name: broker.files.read_bytes(f"{log.directory}/{name}") for name in names if name.endswith(LOG_SUFFIX)}


def catch_up(broker: Broker, log: UnifiedLog, future: UnifiedLog) -> None:
    while broker.manager.futures.copy(log, future, COPY_BYTES):
        pass


def test_move_while_the_log_is_written() -> None:
    broker = moving_broker()
    log, chance = broker.log(), broker.random
    future = broker.manager.begin_move(log, "/b")
    while broker.manager.futures.copy(log, future, COPY_BYTES):
        if chance.random() < 0.5:
            append(log, 1, chance)
    append(log, 2, chance)  # copied by the completion
    records, files, end = read_all(log), segment_files(broker, log), log.local.end
    assert broker.manager.complete_move(log, future)

    assert broker.log() is log
    assert (log.directory, log.parent_dir) == ("/b/topic-0", "/b")
    assert segment_files(broker, log) == files
    assert read_all(log) == records
    assert read_all(log, FetchIsolation.HIGH_WATERMARK) == records
    assert log.local.end == end  # a place in the old files is the same place in the new ones
    assert check_indexes(log) > 0
    assert broker.manager.logs_in("/a") == []
    assert broker.manager.logs_in("/b") == [log]
    append(log, 5, chance)
    expected = read_all(log)
    assert expected[: len(records)] == records
    broker.scheduler.tick(log.config.file_delete_delay_ms)
    assert [name for name in broker.files.list_dir("/a") if broker.files.is_dir(f"/a/{name}")] == []
    assert read_all(broker.restart()) == expected
    assert broker.log().parent_dir == "/b"


def test_back_and_forth() -> None:
    broker = moving_broker()
    for to_dir in ("/b", "/a", "/b"):
        log = broker.log()
        expected = read_all(log)
        future = broker.manager.begin_move(log, to_dir)
        catch_up(broker, log, future)
        assert broker.manager.complete_move(log, future)
        assert read_all(broker.log()) == expected
        append(log, 3, broker.random)
    assert MOVED_FROM_FILE not in broker.files.list_dir("/b/topic-0")


def test_snapshots_of_a_copy_are_written_though_it_has_taken_the_place_of_the_log() -> None:
    """The background of the copy no longer finds the producers of a roll when the files have been exchanged."""
    broker = Broker(SimulatedFiles(), config=SMALL_SEGMENTS, log_dirs=DIRS)
    log = broker.log()
    for producer_id in range(MANY_PRODUCERS + 1):
        builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        builder.append(NOW, b"key", b"value")
        log.append_as_leader(builder.build(), 0)
    append(log, 10, broker.random)
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    begun = future.producers.begun_offsets()
    assert begun, "the copy has rolled, and the background has not run"
    assert broker.manager.complete_move(log, future)
    broker.scheduler.tick()
    names = broker.files.list_dir(log.directory)
    assert {segment_file_name(offset, SNAPSHOT_SUFFIX) for offset in begun} <= set(names)
    assert log.producers.begun_offsets() == []


def test_move_goes_on_after_a_restart() -> None:
    broker = moving_broker()
    log = broker.log()
    broker.manager.futures.copy(log, broker.manager.begin_move(log, "/b"), COPY_BYTES)
    expected = read_all(log)
    for start in (broker.restart, broker.kill, broker.crash):
        log = start()
        assert log.parent_dir == "/a"
        assert read_all(log) == expected
        assert [copy.topic_partition for copy in broker.manager.futures.all()] == [PARTITION]
    future = broker.manager.futures.get(PARTITION)
    assert future is not None
    catch_up(broker, log, future)
    assert broker.manager.complete_move(log, future)
    assert read_all(log) == expected


@pytest.mark.parametrize("kills", [True, False], ids=["kill", "power"])
def test_crash_at_every_step(kills: bool) -> None:
    """Whatever a start finds, the partition has one log with every record that was flushed before the move."""
    changes = moved = 0
    while True:
        broker = moving_broker(seed=changes)
        assert isinstance(broker.files, SimulatedFiles)
        log = broker.log()
        log.flush()
        broker.manager.checkpoints.write_recovery_points()
        expected = read_all(log)
        future = broker.manager.begin_move(log, "/b")
        catch_up(broker, log, future)
        broker.files.power_off_after(changes)
        done = False
        with suppress(PowerOff):
            done = broker.manager.complete_move(log, future)
        log = broker.kill() if kills else broker.crash()
        assert read_all(log) == expected, changes
        assert not broker.failed_dirs
        moved += log.parent_dir == "/b"
        if log.parent_dir == "/a" and (copy := broker.manager.futures.get(PARTITION)) is not None:
            catch_up(broker, log, copy)
            assert broker.manager.complete_move(log, copy)
            assert read_all(log) == expected
        # A second start finds nothing left over but what it would delete.
        append(log, 1, broker.random)
        expected = read_all(log)
        log.flush()
        assert read_all(broker.restart()) == expected
        if done:
            break
        changes += 1
    assert changes > 6
    assert moved > 1


def test_log_that_loses_records_meanwhile() -> None:
    """A follower is cut to its leader's log, and gets other records at the same offsets."""
    broker = moving_broker()
    log, chance = broker.log(), broker.random
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    log.update_high_watermark(5)
    broker.manager.truncate_to(PARTITION, 7)
    append(log, 30, chance, epoch=3)
    catch_up(broker, log, future)
    expected = read_all(log)
    assert broker.manager.complete_move(log, future)
    assert read_all(log) == expected
    # Without new records, and down to nothing.
    future = broker.manager.begin_move(log, "/a")
    catch_up(broker, log, future)
    broker.manager.truncate_to(PARTITION, 9)
    catch_up(broker, log, future)
    assert future.log_end_offset == log.log_end_offset
    broker.manager.truncate_fully_and_start_at(PARTITION, 1000)
    append(log, 2, chance, epoch=4)
    expected = read_all(log)
    assert broker.manager.complete_move(log, future)
    assert read_all(log) == expected
    assert log.log_start_offset == 1000


def test_log_that_starts_later() -> None:
    """DeleteRecords in the middle of a segment: the log start is in no file but the checkpoint."""
    broker = moving_broker()
    log = broker.log()
    log.maybe_increment_log_start_offset(6, "test")
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    log.maybe_increment_log_start_offset(11, "test")
    expected = read_all(log)
    assert broker.manager.complete_move(log, future)
    assert log.log_start_offset == 11
    log.flush()
    log = broker.crash()
    assert (log.parent_dir, log.log_start_offset) == ("/b", 11)
    assert read_all(log) == expected


def test_producers_and_epochs_move_too() -> None:
    broker = moving_broker()
    log = broker.log()

    def produce(sequence: int) -> None:
        builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        builder.append(0, b"key", b"value")
        log.append_as_leader(builder.build(), 0)

    produce(0)
    began = log.log_end_offset - 1
    log.assign_epoch(5, log.log_end_offset)  # a leader that has written nothing yet
    log.update_high_watermark(log.log_end_offset)
    producers, epochs = log.producers.active(), log.leader_epochs.entries
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    assert broker.manager.complete_move(log, future)
    assert log.producers.active() == producers
    assert log.leader_epochs.entries == epochs
    assert log.last_stable_offset == began
    with pytest.raises(ApiError) as refused:
        produce(5)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log = broker.restart()
    assert log.producers.active() == producers


def test_move_that_is_given_up() -> None:
    broker = moving_broker()
    log = broker.log()
    future = broker.manager.begin_move(log, "/b")
    broker.manager.futures.copy(log, future, COPY_BYTES)
    broker.manager.give_up_move(PARTITION)
    assert not broker.manager.complete_move(log, future)
    with pytest.raises(ApiError) as refused:
        broker.manager.futures.copy(log, future, COPY_BYTES)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [name for name in broker.files.list_dir("/b") if name.endswith(FUTURE_DIR_SUFFIX)] == []
    assert broker.restart().parent_dir == "/a"


def test_deleted_partition_takes_its_copy_along() -> None:
    broker = moving_broker()
    log = broker.log()
    broker.manager.futures.copy(log, broker.manager.begin_move(log, "/b"), COPY_BYTES)
    broker.manager.async_delete(PARTITION)
    broker.scheduler.tick(log.config.file_delete_delay_ms)
    for path in DIRS:
        assert not [name for name in broker.files.list_dir(path) if broker.files.is_dir(f"{path}/{name}")]


def test_disk_error_before_the_end_leaves_the_log() -> None:
    broker = moving_broker()
    assert isinstance(broker.files, SimulatedFiles)
    log = broker.log()
    expected = read_all(log)
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    broker.files.fault = fault_once("rename", OSError(errno.EIO, "broken"), FUTURE_DIR_SUFFIX)
    with pytest.raises(ApiError) as refused:
        broker.manager.complete_move(log, future)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failed_dirs == ["/b"]
    broker.manager.fail_log_dir("/b")
    append(log, 1, broker.random)
    assert read_all(log)[:-1] == expected
    assert broker.manager.futures.all() == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("kills", [True, False], ids=["kill", "power"])
def test_new_name_that_may_not_be_durable(number: int, kills: bool) -> None:
    """Whichever name a start finds, no record is missing: nothing was appended behind the exchange."""
    broker = moving_broker()
    assert isinstance(broker.files, SimulatedFiles)
    log = broker.log()
    log.flush()
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    future.flush()  # which syncs the directory too, the first time
    expected = read_all(log)
    broker.files.fault = fault_once("sync_dir", OSError(number, "broken"), "/b")
    assert broker.manager.complete_move(log, future)
    assert broker.failed_dirs == ["/b"]
    with pytest.raises(ApiError) as refused:
        append(log, 1, broker.random)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.manager.fail_log_dir("/b") == [PARTITION]
    assert broker.manager.get_log(PARTITION) is None
    log = broker.kill() if kills else broker.crash()
    assert read_all(log) == expected


def test_damaged_copy_leaves_the_log() -> None:
    broker = moving_broker()
    assert isinstance(broker.files, SimulatedFiles)
    log, chance = broker.log(), broker.random
    future = broker.manager.begin_move(log, "/b")
    catch_up(broker, log, future)
    log.append_as_leader(batch(2, chance=chance), 0)  # so that the high watermark lies in the middle of a segment
    log.append_as_leader(batch(2, chance=chance), 0)
    log.update_high_watermark(log.log_end_offset - 2)
    catch_up(broker, log, future)
    expected = read_all(log)
    active = f"{future.directory}/{future.local.segments.active.base_offset:020d}{LOG_SUFFIX}"
    broker.files.write_bytes(active, bytes(len(broker.files.read_bytes(active))))
    with pytest.raises(ApiError) as refused:
        broker.manager.complete_move(log, future)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert "cannot be moved, its copy is damaged" in str(refused.value)
    assert log.directory == "/a/topic-0"
    append(log, 1, chance)
    broker.manager.give_up_move(PARTITION)
    assert read_all(broker.restart())[:-1] == expected


def test_log_that_is_made_anew_beside_its_copy() -> None:
    broker = moving_broker()
    broker.manager.begin_move(broker.log(), "/b")
    broker.manager.shutdown()
    broker.log_dirs = ("/b",)
    broker.start()
    log = broker.log()
    broker.manager.give_up_move(PARTITION)
    assert broker.manager.logs_in("/b") == [log]


def test_two_logs_without_a_mark_are_refused() -> None:
    """An operator's copy: the broker cannot know which of the two is the log."""
    broker = moving_broker()
    broker.manager.shutdown()
    for name in broker.files.list_dir("/a/topic-0"):
        if name.endswith(SEGMENT_SUFFIXES):
            broker.files.make_dirs("/b/topic-0")
            assert isinstance(broker.files, SimulatedFiles)
            broker.files.write_bytes(f"/b/topic-0/{name}", broker.files.read_bytes(f"/a/topic-0/{name}"))
    broker.start()
    assert broker.failed_dirs == ["/b"]
    assert broker.log().parent_dir == "/a"


def test_preferred_directory_of_a_log_that_is_made_later() -> None:
    broker = Broker(SimulatedFiles(), log_dirs=("/a", "/b", "/c"))
    broker.manager.futures.prefer(PARTITION, "/c")
    assert broker.log().parent_dir == "/c"


@pytest.mark.parametrize("log_dir", ["/nowhere", "/b"])
def test_directory_that_takes_no_log(log_dir: str) -> None:
    broker = moving_broker()
    broker.directories.take_offline("/b")
    with pytest.raises(ApiError) as refused:
        broker.manager.futures.check_directory(log_dir)
    assert refused.value.code is (ErrorCode.KAFKA_STORAGE_ERROR if log_dir == "/b" else ErrorCode.LOG_DIR_NOT_FOUND)
