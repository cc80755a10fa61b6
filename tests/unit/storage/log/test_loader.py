"""Opening logs as crashes, the cleaner and other brokers leave them."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ApiError
from barnabas.records.legacy_records import encode_message
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.file_names import segment_file_name
from barnabas.storage.log.leader_epochs import EpochEntry
from tests.support.simulated_files import Moment, PowerOff, SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, batch, check_indexes, log_config, offsets, read_all

CONFIG = log_config(segment_bytes=1000, index_interval_bytes=150)
DIRECTORY = "/data/topic-0"


def written(clean: bool, *, epochs: int = 1) -> tuple[SimulatedFiles, list[bytes]]:
    """A disk with a log of some segments, as a stop or a kill left it; and its batches."""
    files = SimulatedFiles()
    broker = Broker(files, config=CONFIG)
    log = broker.log()
    for number in range(40):
        log.append_as_leader(batch(number % 3 + 1, timestamp=NOW + number), number * epochs // 40)
    stored = read_all(log)
    log.flush()
    broker.manager.checkpoints.write_recovery_points()
    if clean:
        broker.manager.shutdown()
    files.kill()
    return files, stored


def path_of(base_offset: int, suffix: str) -> str:
    return f"{DIRECTORY}/{segment_file_name(base_offset, suffix)}"


def bases(files: SimulatedFiles) -> list[int]:
    return [int(name[:20]) for name in files.list_dir(DIRECTORY) if name.endswith(".log")]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "half an entry", "zeros", "points nowhere"])
def test_damaged_indexes_are_rebuilt(clean: bool, suffix: str, damage: str) -> None:
    """Of the first segment, which lies before the recovery point, so that nothing else would go through it."""
    files, stored = written(clean)
    path = path_of(0, suffix)
    content = files.read_bytes(path)
    if damage == "missing":
        files.unlink(path)
    elif damage == "half an entry":
        files.write_bytes(path, content[:-3])
    elif damage == "zeros":
        files.write_bytes(path, content + bytes(240))
    elif suffix == ".index":
        files.write_bytes(path, content[:-1] + bytes([content[-1] ^ 0x55]))
    log = Broker(files, config=CONFIG).log()
    assert read_all(log) == stored
    assert check_indexes(log) > 10


def test_left_over_files_go() -> None:
    files, stored = written(clean=True)
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "leader-epoch-checkpoint.tmp"):
        files.write_bytes(f"{DIRECTORY}/{name}", b"x")
    files.write_bytes(path_of(7777, ".index"), b"")
    files.write_bytes(path_of(9999, ".snapshot"), b"x")
    files.write_bytes(path_of(3, ".snapshot"), b"x")
    log = Broker(files, config=CONFIG).log()
    assert read_all(log) == stored
    names = files.list_dir(DIRECTORY)
    assert not any(name.endswith((".deleted", ".cleaned", ".tmp")) for name in names)
    assert path_of(7777, ".index").rsplit("/", 1)[1] not in names
    kept = [int(name[:20]) for name in names if name.endswith(".snapshot")]
    assert kept == [*bases(files)[1:], log.log_end_offset]


@pytest.mark.parametrize("indexes", [True, False])
@pytest.mark.parametrize("old_files_gone", [True, False])
def test_finished_cleaning_is_completed(indexes: bool, old_files_gone: bool) -> None:
    """The first two segments were compacted into one, which had not got its name yet."""
    files, stored = written(clean=False)
    first, second, third = bases(files)[:3]
    cleaned = [one for one in stored if RecordBatch(one).base_offset < third]
    kept = [*cleaned[:-1:3], cleaned[-1]]
    later = [one for one in stored if RecordBatch(one).base_offset >= third]
    files.write_bytes(path_of(first, ".log.swap"), b"".join(kept))
    if indexes:
        files.write_bytes(path_of(first, ".index.swap"), b"")
        files.write_bytes(path_of(first, ".timeindex.swap"), b"")
    if old_files_gone:
        files.rename(path_of(first, ".log"), path_of(first, ".log.deleted"))
        files.rename(path_of(second, ".log"), path_of(second, ".log.deleted"))
    log = Broker(files, config=CONFIG).log()
    assert read_all(log) == kept + later
    assert bases(files)[:2] == [first, third]
    assert not any(name.endswith(".swap") for name in files.list_dir(DIRECTORY))
    assert log.append_as_leader(batch(), 0).first_offset == RecordBatch(stored[-1]).next_offset


def test_unfinished_cleaning_is_undone() -> None:
    files, stored = written(clean=False)
    files.write_bytes(path_of(0, ".log.swap"), stored[0])
    files.write_bytes(path_of(0, ".log.cleaned"), stored[0])
    assert read_all(Broker(files, config=CONFIG).log()) == stored


def test_corruption_costs_what_lies_behind_it() -> None:
    files, stored = written(clean=False)
    files.unlink("/data/recovery-point-offset-checkpoint")
    middle = bases(files)[2]
    content = bytearray(files.read_bytes(path_of(middle, ".log")))
    content[150] ^= 1
    files.write_bytes(path_of(middle, ".log"), bytes(content))
    log = Broker(files, config=CONFIG).log()
    whole = [one for one in stored if RecordBatch(one).base_offset >= middle]
    assert len(whole[0]) < 150 < len(whole[0]) + len(whole[1])
    assert read_all(log) == stored[: stored.index(whole[1])]
    assert bases(files)[-1] == middle
    check_indexes(log)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_lost_end_of_a_segment_costs_the_next_one(policy: str) -> None:
    """At a batch's boundary nothing is torn; but behind a hole nothing is kept, unless holes are normal."""
    files, stored = written(clean=False)
    files.unlink("/data/recovery-point-offset-checkpoint")
    middle, following = bases(files)[2:4]
    whole = [one for one in stored if middle <= RecordBatch(one).base_offset < following]
    files.write_bytes(path_of(middle, ".log"), b"".join(whole[:-1]))
    kept = read_all(Broker(files, config=log_config(segment_bytes=1000, cleanup_policy=policy)).log())
    if policy == "delete":
        assert kept == stored[: stored.index(whole[-1])]
    else:
        assert kept == [one for one in stored if one != whole[-1]]


def test_only_segments_behind_the_recovery_point_are_recovered() -> None:
    files, stored = written(clean=False)
    first = bytearray(files.read_bytes(path_of(0, ".log")))
    first[100] ^= 1
    files.write_bytes(path_of(0, ".log"), bytes(first))
    files.calls.clear()
    log = Broker(files, config=CONFIG).log()
    assert log.log_end_offset == RecordBatch(stored[-1]).next_offset
    assert log.local.segments.first.size == len(first)


def test_epochs_unreadable_or_missing_come_from_the_batches() -> None:
    for content in (b"0\n1\nrubbish\n", None):
        files, stored = written(clean=True, epochs=4)
        if content is None:
            files.unlink(f"{DIRECTORY}/leader-epoch-checkpoint")
        else:
            files.write_bytes(f"{DIRECTORY}/leader-epoch-checkpoint", content)
        log = Broker(files, config=CONFIG).log()
        starts: dict[int, int] = {}
        for one in map(RecordBatch, stored):
            starts.setdefault(one.partition_leader_epoch, one.base_offset)
        assert log.leader_epochs.entries == tuple(EpochEntry(*entry) for entry in starts.items())


def test_log_that_ends_before_its_start_begins_anew() -> None:
    files, _ = written(clean=False)
    files.write_bytes("/data/log-start-offset-checkpoint", b"0\n1\ntopic 0 500\n")
    log = Broker(files, config=CONFIG).log()
    assert (log.log_start_offset, log.log_end_offset, read_all(log)) == (500, 500, [])


def test_old_message_formats_are_opened_and_read() -> None:
    """A segment as Kafka 0.10 wrote it, with newer batches behind."""
    files = SimulatedFiles()
    files.make_dirs(DIRECTORY)
    old = b"".join(encode_message(1, offset, NOW + offset, b"k", b"v") for offset in range(5))
    new = bytearray(batch(2))
    new[:8] = (5).to_bytes(8, "big")
    new[12:16] = (0).to_bytes(4, "big")
    files.write_bytes(path_of(0, ".log"), old + bytes(new))
    log = Broker(files).log()
    assert log.log_end_offset == 7
    assert b"".join(read_all(log)) == old + bytes(new)
    assert log.offset_for_timestamp(NOW + 3) == (NOW + 3, 3, -1)
    check_indexes(log)


def test_a_new_log_after_a_deleted_one_of_the_same_name() -> None:
    """The checkpoints of the old one must not speak for the new one: its batches would not be checked."""
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    for _ in range(20):
        log.append_as_leader(batch(5), 0)
    log.maybe_increment_high_watermark(log.local.end)
    log.maybe_increment_log_start_offset(50, "client delete records request")
    log.flush()
    broker.manager.checkpoints.write_recovery_points()
    broker.manager.checkpoints.write_log_start_offsets()
    broker.manager.async_delete(log.topic_partition)
    fresh = broker.log()
    for _ in range(3):
        fresh.append_as_leader(batch(2), 0)
    path = fresh.local.segments.active.file.path
    torn = files.read_bytes(path)[:-10]
    files.write_bytes(path, torn)
    assert offsets(read_all(broker.kill())) == [(0, 1), (2, 3)]


def test_a_damaged_old_segment_and_lost_epochs_keep_no_broker_from_starting() -> None:
    files = SimulatedFiles()
    broker = Broker(files, config=CONFIG)
    log = broker.log()
    while len(log.local.segments) < 3:
        log.append_as_leader(batch(3), 2)
    end = log.log_end_offset
    broker.manager.shutdown()
    first = path_of(0, ".log")
    content = bytearray(files.read_bytes(first))
    content[len(batch(3)) + 8 : len(batch(3)) + 12] = (-5).to_bytes(4, "big", signed=True)
    files.write_bytes(first, bytes(content))
    files.unlink(f"{DIRECTORY}/leader-epoch-checkpoint")
    broker.start()
    log = broker.log()
    assert log.log_end_offset == end
    assert log.leader_epochs.latest_epoch == 2
    with pytest.raises(ApiError, match="claims"):
        log.read(4, 1000, FetchIsolation.LOG_END)
    log.append_as_leader(batch(1), 2)


def test_what_a_killed_broker_did_not_flush_is_flushed_before_it_is_read_again() -> None:
    """A topic with `flush.messages=1`, killed between a write and its flush: the retry is answered as a duplicate."""
    files = SimulatedFiles()
    broker = Broker(files, config=log_config(flush_messages=1))
    log = broker.log()
    log.append_as_leader(batch(), 0)
    files.death = lambda path, _: Moment.AFTER if path.endswith(".log") else None
    with pytest.raises(PowerOff):
        log.append_as_leader(batch(2), 1)
    files.death = None
    found = read_all(broker.kill())
    assert offsets(found) == [(0, 0), (1, 2)]
    log = broker.crash()
    assert read_all(log) == found
    assert log.leader_epochs.latest_epoch == 1
