"""The bounds of a log: pure moves, and the worked example above `unified_log`, step by step."""

from __future__ import annotations

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.log.bounds import LogBounds
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendGate, AppendOrigin
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from tests.unit.storage.log_harness import NOW, Broker, batch


def offsets_of(log: UnifiedLog) -> tuple[int, int, int, int]:
    return log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset


def parts(bounds: LogBounds) -> tuple[object, ...]:
    return bounds.start, bounds.high_watermark, bounds.first_unstable, bounds.last_stable


def transactional(count: int) -> bytes:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    for _ in range(count):
        builder.append(NOW, b"key", b"value")
    return builder.build()


def test_the_worked_example() -> None:
    log = Broker().log()
    assert offsets_of(log) == (0, 0, 0, 0)
    log.append_as_leader(batch(5), 0)
    assert offsets_of(log) == (0, 0, 0, 5)
    log.maybe_increment_high_watermark(LogOffsetMetadata(5))
    assert offsets_of(log) == (0, 5, 5, 5)
    log.append_as_leader(transactional(2), 0)
    assert offsets_of(log) == (0, 5, 5, 7)
    log.maybe_increment_high_watermark(LogOffsetMetadata(7))
    assert offsets_of(log) == (0, 5, 7, 7)
    log.append_as_leader(EndTransactionMarker(False, 0, NOW).batch(7, 0), 0, origin=AppendOrigin.COORDINATOR)
    assert offsets_of(log) == (0, 5, 7, 8)
    log.maybe_increment_high_watermark(LogOffsetMetadata(8))
    assert offsets_of(log) == (0, 8, 8, 8)
    log.maybe_increment_log_start_offset(6, "client delete records request")
    assert offsets_of(log) == (6, 8, 8, 8)


def test_an_append_that_commits_moves_the_bounds_as_the_rules_do() -> None:
    log = Broker().log()
    log.append_as_leader(batch(5), 0, admit=AppendGate())
    end = log.local.end
    assert parts(log.bounds) == parts(LogBounds(0, end, None))
    log.append_as_leader(transactional(2), 0, admit=AppendGate())
    assert parts(log.bounds) == parts(LogBounds(0, log.local.end, end))
    assert log.bounds.last_stable == end


def test_a_cut_leaves_no_bound_above_the_end() -> None:
    end = LogOffsetMetadata(3, 0, 30)
    assert parts(LogBounds(5, LogOffsetMetadata(9, 8, 1), None).cut_at(end)) == parts(LogBounds(3, end, None))
    below = LogBounds(1, LogOffsetMetadata(2, 0, 20), None)
    assert parts(below.cut_at(end)) == parts(below)


def test_a_newer_segment_is_a_rise_too() -> None:
    bounds = LogBounds(0, LogOffsetMetadata(5, 0, 50), None)
    assert bounds.is_raised_by(LogOffsetMetadata(5, 5, 0))
    assert bounds.is_raised_by(LogOffsetMetadata(6))
    assert not bounds.is_raised_by(LogOffsetMetadata(5))
    assert not bounds.is_raised_by(LogOffsetMetadata(4, 0, 40))
