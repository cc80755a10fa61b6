"""Segments whose records have no timestamps are as old as their files (Kafka: LogSegment.largestTimestamp)."""

from __future__ import annotations

from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import Broker, batch, log_config

NO_TIMESTAMP = -1


def test_records_without_timestamps_go_by_the_time_of_their_file() -> None:
    broker = Broker(config=log_config(segment_bytes=300, retention_ms=10_000))
    log = broker.log()
    for _ in range(4):
        log.append_as_leader(batch(1, timestamp=NO_TIMESTAMP, size=100), 0)
        broker.clock.advance(4000)
    log = broker.restart()  # opening a log makes its segments no younger
    log.update_high_watermark(log.log_end_offset)
    files = broker.files
    assert isinstance(files, SimulatedFiles)
    now_ms = broker.clock.milliseconds()
    ages = [now_ms - files.modified_ms(segment.file.path) for segment in log.local.segments]
    old = [age > 10_000 for age in ages]
    assert any(old)
    assert not all(old)
    assert log.delete_old_segments() == old.count(True)
    assert log.log_start_offset == log.local.segments.first.base_offset > 0
