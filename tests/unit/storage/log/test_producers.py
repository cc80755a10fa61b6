"""Producers of one log on a simulated disk: duplicates, transactions, snapshots; stops, kills, crashes, truncation."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch, batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.fetch_data import AbortedTransaction, FetchDataInfo, FetchIsolation
from barnabas.storage.log.aborted_transactions import collect_aborted
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.producers.entry import ActiveProducer
from barnabas.storage.producers.snapshot import encode_snapshot
from barnabas.storage.producers.state_manager import MANY_PRODUCERS
from barnabas.storage.segment.factory import SegmentFactory
from barnabas.storage.segment.file import OpenFiles
from barnabas.storage.segment.index_file import IndexPages
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, batch, fault_once, log_config, offsets, produced, read_all

SMALL = log_config(segment_bytes=1000, index_interval_bytes=150)
COMMITTED = FetchIsolation.TXN_COMMITTED


def send(log: UnifiedLog, *args: int, **kwargs: int | bool) -> LogAppendInfo:
    return log.append_as_leader(produced(*args, **kwargs), 0)  # type: ignore[arg-type]


def end_transaction(log: UnifiedLog, producer_id: int, *, abort: bool = False, epoch: int = 0) -> LogAppendInfo:
    marker = EndTransactionMarker(abort, 0, NOW)
    return log.append_as_leader(marker.batch(producer_id, epoch), 0, origin=AppendOrigin.COORDINATOR)


def snapshots(broker: Broker, log: UnifiedLog) -> list[int]:
    names = broker.files.list_dir(log.directory)
    return [int(name[:20]) for name in names if name.endswith(".snapshot")]


def refuses(log: UnifiedLog, code: ErrorCode, data: bytes) -> bool:
    end = log.log_end_offset
    with pytest.raises(ApiError) as raised:
        log.append_as_leader(data, 0)
    return raised.value.code is code and log.log_end_offset == end


def test_a_duplicate_gets_the_first_answer() -> None:
    log = Broker().log()
    infos = [send(log, 1, sequence * 2, 2, timestamp=NOW + sequence) for sequence in range(7)]
    for sequence in range(2, 7):
        again = send(log, 1, sequence * 2, 2, timestamp=NOW + sequence)
        assert (again.first_offset, again.last_offset) == (infos[sequence].first_offset, infos[sequence].last_offset)
        assert again.is_duplicate
        assert again.log_append_time_ms == NOW + sequence
    assert refuses(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, produced(1, 2, 2))  # the sixth from the end
    assert refuses(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, produced(1, 12, 1))  # not the same end
    assert refuses(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, produced(1, 15))
    assert log.log_end_offset == 14
    assert not send(log, 1, 14).is_duplicate
    assert log.producers.active() == [ActiveProducer(1, 0, 14, NOW, -1, -1)]


def test_logs_without_idempotent_producers_hold_no_tables() -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    for _ in range(40):
        log.append_as_leader(batch(2), 0)
    assert log.producers.states is None
    log = broker.restart()
    assert log.producers.states is None
    assert snapshots(broker, log) == [*(segment.base_offset for segment in log.local.segments.all()[1:]), 80]
    content = broker.files.read_bytes(log.producers.snapshot_path(80))
    assert content.hex() == "000148674bc700000000"


@pytest.mark.parametrize("how", ["restart", "kill", "crash"])
def test_producers_are_known_after_a_start(how: str) -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    for number in range(60):
        send(log, number % 3, number // 3)
        log.append_as_leader(batch(), 0)
    log.flush()
    before = log.producers.active()
    log = getattr(broker, how)()
    assert sorted(log.producers.active()) == sorted(before)
    for producer in range(3):
        assert send(log, producer, 19).is_duplicate
        assert refuses(log, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, produced(producer, 21))
        assert not send(log, producer, 20).is_duplicate


def test_a_kill_loses_none_of_the_last_five_batches() -> None:
    """Recovery has read them all; a snapshot alone knows the last one."""
    broker = Broker()
    log = broker.log()
    for sequence in range(8):
        send(log, 1, sequence)
    log = broker.kill()
    assert [send(log, 1, sequence).first_offset for sequence in range(3, 8)] == [3, 4, 5, 6, 7]


def test_crashes_never_lose_or_invent_a_sequence_number() -> None:
    """The power fails at any moment: what the log holds decides what is a duplicate, and what comes next."""
    for seed in range(60):
        chance = random.Random(seed)
        broker = Broker(SimulatedFiles(), config=SMALL, seed=seed)
        log = broker.log()
        for _ in range(chance.randint(1, 4)):
            _write_some(broker, log, chance)
            log = chance.choice((broker.crash, broker.crash, broker.kill, broker.restart))()
            _check_against_log(log)


def _write_some(broker: Broker, log: UnifiedLog, chance: random.Random) -> None:
    nexts = {producer.producer_id: producer.last_sequence + 1 for producer in log.producers.active()}
    for _ in range(chance.randint(1, 60)):
        producer = chance.randrange(3)
        if producer == 2:
            log.append_as_leader(batch(), 0)
        else:
            sequence = nexts.get(producer, 0)
            send(log, producer, sequence, transactional=bool(producer))
            nexts[producer] = sequence + 1
            if producer and chance.random() < 0.3:
                end_transaction(log, producer, abort=chance.random() < 0.5)
        if chance.random() < 0.05:
            log.flush()
        if chance.random() < 0.05:
            log.raise_high_watermark_to_end()
            log.truncate_to(chance.randrange(max(1, log.log_end_offset - 20), log.log_end_offset + 1))
            nexts = {producer.producer_id: producer.last_sequence + 1 for producer in log.producers.active()}
        if chance.random() < 0.1:
            broker.manager.checkpoints.write_recovery_points()
            broker.scheduler.tick()


def _check_against_log(log: UnifiedLog) -> None:
    """Producers, open transactions and aborted ones as a plain reading of the log has them."""
    last: dict[int, int] = {}
    began: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for stored in map(RecordBatch, read_all(log)):
        if stored.producer_id < 0:
            continue
        if not stored.is_control:
            last[stored.producer_id] = stored.last_sequence
            if stored.is_transactional:
                began.setdefault(stored.producer_id, stored.base_offset)
            continue
        marker = EndTransactionMarker.of(stored)
        assert marker is not None
        first = began.pop(stored.producer_id, None)
        if marker.is_abort and first is not None:
            aborted.append((stored.producer_id, first, stored.base_offset))
    known = {producer.producer_id: producer for producer in log.producers.active()}
    assert {producer_id: one.last_sequence for producer_id, one in known.items() if one.last_sequence >= 0} == last
    open_ones = {
        producer_id: one.current_transaction_start_offset
        for producer_id, one in known.items()
        if one.current_transaction_start_offset >= 0
    }
    assert open_ones == began
    entries = collect_aborted(log.local, 0, log.log_end_offset)
    assert [tuple(entry[:3]) for entry in entries] == aborted
    log.raise_high_watermark_to_end()
    assert log.last_stable_offset == min(began.values(), default=log.log_end_offset)


def test_readers_of_committed_records_stop_at_the_oldest_open_transaction() -> None:
    log = Broker(config=SMALL).log()
    send(log, 1, 0)
    send(log, 2, 0, 2, transactional=True)
    log.raise_high_watermark_to_end()
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    assert offsets(read_all(log, COMMITTED)) == [(0, 0)]
    assert offsets(read_all(log, FetchIsolation.HIGH_WATERMARK)) == [(0, 0), (1, 2)]
    send(log, 3, 0, transactional=True)
    end_transaction(log, 2, abort=True)
    assert log.last_stable_offset == 1  # the marker is not replicated yet
    log.raise_high_watermark_to_end()
    assert log.last_stable_offset == 3
    end_transaction(log, 3)
    log.raise_high_watermark_to_end()
    assert log.last_stable_offset == 6
    data = log.read(0, 10_000, COMMITTED)
    assert data.aborted_transactions == [AbortedTransaction(2, 1)]
    data.release()
    data = log.read(0, 10_000, FetchIsolation.HIGH_WATERMARK)
    assert data.aborted_transactions is None
    data.release()


def test_aborted_transactions_are_found_across_segments_and_not_beyond_what_is_read() -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    sequences = [0] * 4
    for number in range(120):
        producer = number % 4
        send(log, producer, sequences[producer], transactional=True)
        sequences[producer] += 1
        if number % 7 == 6:
            end_transaction(log, producer, abort=number % 2 == 0)
    assert len(log.local.segments) > 5
    for producer in range(4):
        end_transaction(log, producer, abort=True)
    log.raise_high_watermark_to_end()
    everything = collect_aborted(log.local, 0, log.log_end_offset)
    for again in (broker.log, broker.restart, broker.kill):
        current = again()
        current.raise_high_watermark_to_end()
        assert collect_aborted(current.local, 0, current.log_end_offset) == everything
        for start in range(0, current.log_end_offset, 5):
            data = current.read(start, 400, COMMITTED)
            assert data.aborted_transactions is not None
            end = start
            for stored in batches(data.records.read()):  # type: ignore[union-attr]
                end = stored.next_offset
            data.release()
            needed = {
                AbortedTransaction(entry.producer_id, entry.first_offset)
                for entry in everything
                if entry.last_offset >= start and entry.first_offset < end
            }
            assert needed <= set(data.aborted_transactions)
            assert len(data.aborted_transactions) == len(set(data.aborted_transactions))
            late = [one for one in data.aborted_transactions if one.first_offset >= end + 10]
            assert not late


def test_records_and_aborted_transactions_are_of_the_same_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner puts a segment into the place of the one just read, of which it dropped what was aborted."""
    broker = Broker()
    log = broker.log()
    for number in range(3):
        send(log, 1, number, transactional=True)
    end_transaction(log, 1, abort=True)
    send(log, 1, 3)
    log = broker.restart()
    log.raise_high_watermark_to_end()
    segments = log.local.segments
    cleaned = SegmentFactory.open(_factory(broker), log.directory, 0, broker.config)
    cleaned.indexes.transactions.reset()
    read = LocalLog.read
    reads: list[None] = []

    def read_and_swap(*args: Any, **kwargs: Any) -> FetchDataInfo:
        reads.append(None)
        data = read(*args, **kwargs)
        if len(reads) == 1:
            segments.add(cleaned)
        return data

    monkeypatch.setattr(LocalLog, "read", read_and_swap)
    data = log.read(0, 10_000, COMMITTED)
    assert data.aborted_transactions == []
    assert data.fetch_offset.segment_base_offset == 0
    assert len(reads) == 2
    data.release()
    data = log.read(0, 10_000, COMMITTED)
    assert len(reads) == 3
    data.release()


def _factory(broker: Broker) -> SegmentFactory:
    return SegmentFactory(OpenFiles(broker.files), IndexPages(), broker.clock, broker.random)


@pytest.mark.parametrize("what", [".log", ".txnindex"])
def test_a_marker_that_cannot_be_written_can_be_sent_again(what: str) -> None:
    broker = Broker()
    log = broker.log()
    send(log, 1, 0, transactional=True)
    assert isinstance(broker.files, SimulatedFiles)
    broker.files.fault = fault_once("write", OSError(errno.ENOSPC, "full"), what)
    with pytest.raises(ApiError):
        end_transaction(log, 1, abort=True)
    assert collect_aborted(log.local, 0, 100) == []
    assert end_transaction(log, 1, abort=True).first_offset == 1
    assert len(collect_aborted(log.local, 0, 100)) == 1
    log.raise_high_watermark_to_end()
    assert log.last_stable_offset == 2


def test_what_is_no_marker_is_refused() -> None:
    log = Broker().log()
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(NOW, b"\0\0\0\7", b"\0\0\0\0\0\0")
    with pytest.raises(ApiError) as raised:
        log.append_as_leader(builder.build(), 0, origin=AppendOrigin.COORDINATOR)
    assert raised.value.code is ErrorCode.INVALID_RECORD


def test_followers_take_what_the_leader_let_in() -> None:
    leader, broker = Broker(config=SMALL).log(), Broker(config=SMALL)
    for number in range(30):
        send(leader, 1, number, transactional=True)
        if number % 4 == 3:
            end_transaction(leader, 1, abort=number % 8 == 3)
    follower = broker.log()
    stored = read_all(leader)
    follower.append_as_follower(b"".join(stored[:10]))
    for one in stored[10:]:
        follower.append_as_follower(one)
    assert follower.producers.active() == leader.producers.active()
    assert collect_aborted(follower.local, 0, 100) == collect_aborted(leader.local, 0, 100)
    assert follower.bounds.first_unstable is not None
    follower.update_high_watermark(follower.log_end_offset)
    assert follower.last_stable_offset == follower.log_end_offset - 2
    with pytest.raises(ApiError) as raised:
        follower.append_as_follower(_at(produced(1, 30), follower.log_end_offset))
    assert raised.value.code is ErrorCode.INVALID_TXN_STATE


def _at(data: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + data[8:]


def test_truncation_takes_producers_back() -> None:
    for offset in range(1, 60):
        broker = Broker(config=SMALL)
        log = broker.log()
        for number in range(40):
            send(log, number % 2, number // 2, transactional=bool(number % 2))
            if number % 4 == 3:
                end_transaction(log, 1, abort=number % 8 == 3)
        log.truncate_to(offset)
        _check_against_log(log)
        assert all(snapshot <= log.log_end_offset for snapshot in snapshots(broker, log))
        log = broker.crash()
        _check_against_log(log)


def test_truncation_of_everything_forgets_producers() -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    for number in range(40):
        send(log, 1, number, transactional=True)
    log.truncate_fully_and_start_at(1000)
    assert log.producers.active() == []
    assert snapshots(broker, log) == []
    assert log.bounds.first_unstable is None
    send(log, 1, 40)
    assert broker.restart().producers.active() == [ActiveProducer(1, 0, 40, NOW, -1, -1)]


def test_snapshots_go_with_their_segments() -> None:
    broker = Broker(config=log_config(segment_bytes=1000, retention_bytes=2000))
    log = broker.log()
    for number in range(80):
        send(log, 1, number)
    log.raise_high_watermark_to_end()
    bases = [segment.base_offset for segment in log.local.segments]
    assert snapshots(broker, log) == bases[1:]
    log.delete_old_segments()
    bases = [segment.base_offset for segment in log.local.segments]
    assert snapshots(broker, log) == bases
    assert log.producers.active()[0].last_sequence == 79
    log = broker.restart()
    assert snapshots(broker, log) == [*bases[1:], 80]  # what lies at the log start has nothing to say
    send(log, 1, 80)
    assert snapshots(broker, broker.restart()) == [*bases[1:], 81]


def test_torn_snapshots_are_left_out() -> None:
    """The one before is loaded, and the log behind it read; without any, all of the log."""
    broker = Broker(config=SMALL)
    log = broker.log()
    for number in range(60):
        send(log, number % 3, number // 3)
    before = sorted(log.producers.active())
    broker.manager.shutdown()
    paths = [log.producers.snapshot_path(offset) for offset in snapshots(broker, log)]
    assert isinstance(broker.files, SimulatedFiles)
    for damaged in (paths[-1:], paths[-3:], paths):
        for path in damaged:
            broker.files.write_bytes(path, b"\0" * 30)
        broker.start()
        assert sorted(broker.log().producers.active()) == before
        broker.manager.shutdown()


def test_idle_producers_are_forgotten_while_running_and_at_start() -> None:
    broker = Broker(manager_config=LogManagerConfig(producer_id_expiration_ms=1000, producer_expiration_check_ms=600))
    log = broker.log()
    now = broker.clock.milliseconds()
    send(log, 1, 0, timestamp=now)
    broker.clock.advance(700)
    send(log, 2, 0, timestamp=broker.clock.milliseconds())
    broker.clock.advance(500)
    broker.manager.tasks.remove_expired_producers()
    assert [producer.producer_id for producer in log.producers.active()] == [2]
    broker.manager.shutdown()
    broker.clock.advance(1000)
    broker.start()
    assert broker.log().producers.active() == []
    assert broker.log().producers.states is None


def test_a_snapshot_that_cannot_be_written_stops_the_roll_and_nothing_else() -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    assert isinstance(broker.files, SimulatedFiles)
    broker.files.fault = fault_once("write", OSError(errno.ENOSPC, "full"), ".snapshot")
    refused = []
    sequence = 0
    while sequence < 40:
        try:
            send(log, 1, sequence)
            sequence += 1
        except ApiError as error:
            refused.append(error.code)
    assert refused == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert offsets(read_all(log)) == [(number, number) for number in range(40)]
    bases = [segment.base_offset for segment in log.local.segments]
    assert snapshots(broker, log) == bases[1:]
    assert broker.failed_dirs == []


def test_a_full_disk_keeps_no_log_from_opening_for_want_of_a_snapshot() -> None:
    broker = Broker(config=SMALL)
    log = broker.log()
    for number in range(30):
        send(log, 1, number)
    assert isinstance(broker.files, SimulatedFiles)

    def no_room(call: str, path: str) -> OSError | None:
        return OSError(errno.ENOSPC, "full") if call == "write" and path.endswith(".snapshot") else None

    broker.files.fault = no_room
    log = broker.kill()
    assert broker.failed_dirs == []
    assert log.producers.active() == [ActiveProducer(1, 0, 29, NOW, -1, -1)]
    log.truncate_to(20)
    assert log.producers.active()[0].last_sequence == 19


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [(".log", b"\0" * 11 + b"\1"), (".txnindex", b"\x7f")],
    ids=["impossible size", "unknown version"],
)
def test_damage_under_a_running_broker_is_told_to_readers(suffix: str, damage: bytes) -> None:
    broker = Broker()
    log = broker.log()
    send(log, 1, 0, transactional=True)
    end_transaction(log, 1, abort=True)
    log.raise_high_watermark_to_end()
    log.local.segments.active.forget_recent()
    path = f"{log.directory}/{0:020d}{suffix}"
    assert isinstance(broker.files, SimulatedFiles)
    content = broker.files.read_bytes(path)
    broker.files.open(path).write((damage, content[len(damage) :]), 0)
    with pytest.raises(ApiError) as raised:
        log.read(0, 1000, COMMITTED)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert broker.failed_dirs == []


def test_a_transaction_index_that_was_rebuilt_is_as_durable_as_the_others() -> None:
    """Before the recovery point nobody looks again: an aborted transaction would have become a committed one."""
    for seed in range(30):
        broker = Broker(config=SMALL, seed=seed)
        log = broker.log()
        send(log, 1, 0, transactional=True)
        end_transaction(log, 1, abort=True)
        log.roll()
        for sequence in range(3):
            send(log, 2, sequence)
        log.raise_high_watermark_to_end()
        log.flush()
        broker.manager.shutdown()
        for suffix in (".index", ".txnindex"):
            broker.files.unlink("/data/topic-0/00000000000000000000" + suffix)
        broker.files.sync_dir("/data/topic-0")
        broker.start()
        broker.manager.checkpoints.write_recovery_points()
        log = broker.crash()
        log.raise_high_watermark_to_end()
        aborted = log.read(0, 1000, COMMITTED).aborted_transactions
        assert aborted == [AbortedTransaction(1, 0)], seed


def test_a_roll_leaves_the_snapshot_of_many_producers_to_the_background() -> None:
    """A snapshot of 60,000 producers took half a second of the appending thread, under the log's lock."""
    broker = Broker(config=log_config())
    log = broker.log()
    many = MANY_PRODUCERS + 1
    for producer_id in range(many):
        send(log, producer_id, 0)
    expected = encode_snapshot(list(log.producers.states.entries.values()))  # type: ignore[union-attr]
    log.roll()
    assert snapshots(broker, log) == []
    # The snapshot is that of the roll, whatever is appended before it is written.
    end_transaction(log, 0)
    for producer_id in range(many):
        send(log, producer_id, 0 if producer_id == 0 else 1, epoch=int(producer_id == 0))
    assert log.append_as_leader(produced(1, 1), 0).is_duplicate
    broker.scheduler.tick()
    assert snapshots(broker, log) == [many]
    assert broker.files.read_bytes(log.producers.snapshot_path(many)) == expected
    # A stop writes what the background has not come to; a cut log forgets what it was asked for.
    log.roll()
    end = log.log_end_offset
    log = broker.restart()
    assert snapshots(broker, log) == [many, end]
    for producer_id in range(1, many):
        send(log, producer_id, 2)
    log.roll()
    log.truncate_to(end)
    broker.scheduler.tick()
    assert snapshots(broker, log) == [many, end]
    assert log.append_as_leader(produced(5, 1), 0).is_duplicate
    assert not send(log, 5, 2).is_duplicate


def test_a_snapshot_of_a_log_that_was_cut_off_is_not_written_in_place_of_another() -> None:
    """The log was truncated while its snapshot was encoded, and has rolled at the same offset again."""
    broker = Broker(config=log_config())
    log = broker.log()
    many = MANY_PRODUCERS + 1
    for producer_id in range(many):
        send(log, producer_id, 0)
    log.roll()
    producers = log.producers
    old = producers.begun(many)
    assert old is not None
    log.truncate_to(many - 1)
    send(log, many, 0)  # another producer than in the log that was cut off
    log.roll()
    producers.write_begun(many, old, encode_snapshot(old))
    broker.scheduler.tick()
    expected = encode_snapshot(list(producers.states.entries.values()))  # type: ignore[union-attr]
    assert broker.files.read_bytes(producers.snapshot_path(many)) == expected != encode_snapshot(old)


def test_a_kill_before_the_snapshot_is_written_costs_reading_only() -> None:
    broker = Broker(config=log_config())
    log = broker.log()
    for producer_id in range(MANY_PRODUCERS + 1):
        send(log, producer_id, 0)
    log.roll()
    send(log, 3, 1)
    log = broker.kill()
    assert len(log.producers.active()) == MANY_PRODUCERS + 1
    assert log.append_as_leader(produced(3, 1), 0).is_duplicate
