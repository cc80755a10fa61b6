"""Producers' states and transactions through cleanings: last sequences, markers, aborted records, `.txnindex`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from tests.unit.storage.cleaner_harness import CleanedBroker, Producer, append, committed_offsets, stored
from tests.unit.storage.log_harness import NOW, read_all

RETENTION_MS = 1000


def broker_and_log() -> tuple[CleanedBroker, UnifiedLog]:
    broker = CleanedBroker(delete_retention_ms=RETENTION_MS, segment_bytes=100_000)
    return broker, broker.log()


def views(log: UnifiedLog) -> list[RecordBatch]:
    return [RecordBatch(data) for data in read_all(log, max_bytes=1 << 20)]


def clean(broker: CleanedBroker, log: UnifiedLog) -> None:
    """Make something dirty, and clean."""
    append(log, (b"filler", b"v"), timestamp=NOW)
    log.roll()
    assert broker.clean()


def test_the_last_batch_of_an_active_producer_stays_without_its_records() -> None:
    broker, log = broker_and_log()
    producer = Producer(log, 7, transactional=False)
    for value in (b"1", b"2"):
        producer.send((b"a", value), (b"b", value))
    append(log, (b"a", b"3"), (b"b", b"3"), timestamp=NOW)
    clean(broker, log)
    emptied, *_ = views(log)
    emptied.check()
    assert (emptied.base_offset, emptied.last_offset, emptied.count, emptied.length) == (2, 3, 0, 61)
    assert (emptied.producer_id, emptied.base_sequence, emptied.last_sequence) == (7, 2, 3)
    assert (emptied.base_timestamp, emptied.max_timestamp) == (-1, NOW)
    clean(broker, log)
    assert views(log)[0].count == 0  # still there
    log = broker.kill()
    assert log.producers.active()[0].last_sequence == 3
    log.raise_high_watermark_to_end()
    producer = Producer(log, 7, transactional=False)
    producer.sequence = 4
    producer.send((b"a", b"4"))
    clean(broker, log)
    assert [view.producer_id for view in views(log)] == [-1, 7, -1]  # 2-3 is gone: another one is the last


def test_an_expired_producer_loses_its_last_batch() -> None:
    broker, log = broker_and_log()
    Producer(log, 7, transactional=False).send((b"a", b"1"))
    append(log, (b"a", b"2"), timestamp=NOW)
    log.producers.remove_expired(NOW + 10 * 86_400_000)
    clean(broker, log)
    assert [view.producer_id for view in views(log)] == [-1, -1]


def test_a_commit_marker_goes_after_its_records_and_its_time() -> None:
    broker, log = broker_and_log()
    producer = Producer(log, 7)
    producer.send((b"a", b"1"))
    marker = producer.end()
    clean(broker, log)
    assert views(log)[1].delete_horizon_ms is None  # there are records of the transaction
    producer.send((b"a", b"2"))
    producer.end()
    log.roll()
    clean(broker, log)  # which still meets the records of the first
    clean(broker, log)
    control = next(view for view in views(log) if view.base_offset == marker)
    assert control.delete_horizon_ms == broker.clock.milliseconds() + RETENTION_MS
    assert EndTransactionMarker.of(control) == EndTransactionMarker(False, 0, NOW)
    broker.clock.advance(RETENTION_MS)
    clean(broker, log)
    assert marker not in [view.base_offset for view in views(log)]
    assert [view.is_control for view in views(log)] == [False, True, False]


def test_records_of_aborted_transactions_go_and_readers_are_told_as_long_as_some_are_there() -> None:
    broker, log = broker_and_log()
    aborted, committed = Producer(log, 1), Producer(log, 2)
    aborted.send((b"a", b"dirty"))
    committed.send((b"a", b"1"), (b"b", b"1"))
    aborted.send((b"b", b"dirty"))
    committed.end()
    aborted.end(abort=True)
    log.roll()
    assert log.local.segments.first.indexes.aborted_transactions()
    assert broker.clean()
    assert stored(log) == [(1, b"a", b"1"), (2, b"b", b"1")]
    # The batch with the producer's last sequence stays, without records, and the marker as long as it is there.
    assert [(view.base_offset, view.count) for view in views(log)] == [(1, 2), (3, 0), (4, 1), (5, 1)]
    data = log.read(0, 100_000, FetchIsolation.TXN_COMMITTED)
    data.release()
    assert data.aborted_transactions is not None
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(1, 0)]
    assert broker.files.exists(f"{log.directory}/00000000000000000000.txnindex")
    log.producers.remove_expired(NOW + 10 * 86_400_000)
    clean(broker, log)  # the empty batch goes, and with it what the marker was kept for
    clean(broker, log)
    assert log.local.segments.first.indexes.aborted_transactions() == []
    broker.clock.advance(RETENTION_MS)
    clean(broker, log)
    assert [view.base_offset for view in views(log) if view.is_control] == [4]  # the commit
    assert not [name for name in broker.files.list_dir(log.directory) if name.endswith((".txnindex", ".cleaned"))]


def test_the_keys_of_an_aborted_transaction_supersede_nothing() -> None:
    broker, log = broker_and_log()
    append(log, (b"a", b"1"), timestamp=NOW)
    producer = Producer(log, 1)
    producer.send((b"a", None))
    producer.end(abort=True)
    log.roll()
    assert broker.clean()
    assert stored(log) == [(0, b"a", b"1")]


def test_an_open_transaction_and_what_follows_are_not_cleaned() -> None:
    broker, log = broker_and_log()
    append(log, (b"a", b"1"), timestamp=NOW)
    append(log, (b"a", b"2"), timestamp=NOW)
    log.roll()
    producer = Producer(log, 1)
    producer.send((b"b", b"open"))
    append(log, (b"b", b"1"), (b"b", b"2"), timestamp=NOW)
    log.roll()
    append(log, (b"c", b"1"), (b"c", b"2"), timestamp=NOW)
    log.roll()
    assert broker.clean()
    assert broker.cleaner.manager.first_dirty_offset(log) == 2
    assert [offset for offset, _, _ in stored(log)] == [1, 2, 3, 4, 5, 6]
    assert not broker.clean()
    producer.end()
    assert broker.clean()
    assert [offset for offset, _, _ in stored(log)] == [1, 4, 6]


actions = st.lists(
    st.tuples(
        st.sampled_from(["send", "commit", "abort", "clean", "roll", "wait", "kill"]),
        st.integers(1, 3),
        st.sampled_from([b"a", b"b", b"c"]),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(actions)
def test_readers_of_committed_records_see_the_newest_of_each_key(steps: list[tuple[str, int, bytes]]) -> None:
    broker = CleanedBroker(delete_retention_ms=RETENTION_MS, segment_bytes=400)
    log = broker.log()
    producers = {number: Producer(log, number) for number in (1, 2, 3)}
    open_records: dict[int, dict[int, bytes]] = {1: {}, 2: {}, 3: {}}
    committed: dict[int, bytes] = {}
    for action, number, key in steps:
        producer = producers[number]
        if action == "send":
            open_records[number][producer.send((key, b"v"))] = key
        elif action in ("commit", "abort") and open_records[number]:
            producer.end(abort=action == "abort")
            if action == "commit":
                committed |= open_records[number]
            open_records[number] = {}
        elif action == "clean":
            broker.clean()
        elif action == "roll" and log.local.segments.active.size:
            log.roll()
        elif action == "wait":
            broker.clock.advance(700)
        elif action == "kill":
            log = broker.kill()
            log.raise_high_watermark_to_end()
            for each in producers.values():
                each.log = log
        seen = committed_offsets(log)
        stable = log.last_stable_offset
        newest = {key: offset for offset, key in sorted(committed.items()) if offset < stable}
        assert set(newest.values()) <= set(seen)
        assert set(seen) <= {offset for offset in committed if offset < stable}
        states = {each.producer_id: each.last_sequence for each in log.producers.active()}
        assert all(states[each.producer_id] == each.sequence - 1 for each in producers.values() if each.sequence)
    assert not broker.failed_dirs
    assert not broker.cleaner.manager.uncleanable_partitions("/data")


@pytest.mark.parametrize("abort", [False, True])
def test_the_marker_of_a_producer_that_has_nothing_else_stays(abort: bool) -> None:
    broker, log = broker_and_log()
    producer = Producer(log, 1)
    marker = producer.end(abort=abort)
    for _ in range(3):
        broker.clock.advance(RETENTION_MS)
        clean(broker, log)
        # Its records go in time, its header stays: the epoch of the producer hangs on it.
        assert views(log)[0].base_offset == marker
    assert views(log)[0].count == 0
