"""`preallocate`: the active segment's file has its full size, and only what it holds once it is closed."""

from __future__ import annotations

import pytest

from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import Broker, batch, check_indexes, log_config, offsets, read_all

SEGMENT_BYTES = 4096


def _sizes(broker: Broker) -> list[int]:
    files = broker.files
    assert isinstance(files, SimulatedFiles)
    names = [name for name in files.list_dir("/data/topic-0") if name.endswith(".log")]
    return [len(files.read_bytes(f"/data/topic-0/{name}")) for name in names]


@pytest.mark.parametrize("end", ["restart", "kill", "crash"])
def test_the_active_segment_is_trimmed_when_it_rolls_and_when_the_broker_stops(end: str) -> None:
    broker = Broker(config=log_config(segment_bytes=SEGMENT_BYTES, preallocate="true", index_interval_bytes=100))
    log = broker.log()
    assert _sizes(broker) == [SEGMENT_BYTES]
    while len(log.local.segments) < 3:
        log.append_as_leader(batch(5, size=50), 0)
    log.append_as_leader(batch(5, size=50), 0)
    before = read_all(log)
    log.flush()
    held = [segment.size for segment in log.local.segments]
    assert _sizes(broker) == [*held[:-1], SEGMENT_BYTES]
    assert log.local.segments.size == sum(held) < sum(_sizes(broker))

    log = {"restart": broker.restart, "kill": broker.kill, "crash": broker.crash}[end]()
    assert _sizes(broker) == held
    assert read_all(log) == before
    check_indexes(log)
    log.append_as_leader(batch(5), 0)
    assert offsets(read_all(log))[-1] == (log.log_end_offset - 5, log.log_end_offset - 1)


def test_truncation_gives_the_room_back() -> None:
    broker = Broker(config=log_config(segment_bytes=SEGMENT_BYTES, preallocate="true"))
    log = broker.log()
    for _ in range(4):
        log.append_as_leader(batch(5), 0)
    log.truncate_to(10)
    assert _sizes(broker) == [log.local.segments.size]
    log.append_as_leader(batch(5), 0)
    assert offsets(read_all(log)) == [(0, 4), (5, 9), (10, 14)]
