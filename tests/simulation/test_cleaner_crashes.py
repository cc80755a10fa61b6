"""The power goes off, or the broker dies, at every change a cleaning makes to the disk, and again while recovering.

Afterwards each record is as it was or gone as the cleaner would have it, the newest of each key is there, indexes and
transactions agree with the log, nothing half-done is left, and the next cleaning ends where an undisturbed one does.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from barnabas.storage.log.unified_log import UnifiedLog
from tests.support.simulated_files import PowerOff, SimulatedFiles
from tests.unit.storage.cleaner_harness import CleanedBroker, Producer, append, committed_offsets, stored
from tests.unit.storage.log_harness import LOG_DIR, NOW, check_indexes

Rows = list[tuple[int, bytes | None, bytes | None]]


def prepared() -> tuple[CleanedBroker, UnifiedLog]:
    """A log of several segments that one cleaning makes fewer of, with transactions that ended either way."""
    broker = CleanedBroker(segment_bytes=1600, file_delete_delay_ms=1)
    log = broker.log()
    good, bad = Producer(log, 1), Producer(log, 2)
    for number in range(6):
        append(log, (b"%d" % (number % 3), b"v%d" % number), (b"x%d" % (number % 2), b"w" * 30), timestamp=NOW + number)
        good.send((b"good", b"%d" % number))
        bad.send((b"bad", b"%d" % number), (b"0", None))
        good.end()
        bad.end(abort=True)
        log.roll()
    append(log, (b"tombstone", None), timestamp=NOW)
    log.roll()
    append(log, (b"active", b"1"), timestamp=NOW)
    log.flush()
    broker.manager.checkpoints.write_recovery_points()
    return broker, log


def undisturbed() -> tuple[Rows, Rows, list[int]]:
    """What is stored before and after a cleaning, and what readers of committed records see afterwards."""
    broker, log = prepared()
    before = stored(log)
    segments = len(log.local.segments)
    assert broker.clean()
    assert 2 < len(log.local.segments) < segments - 2  # several groups of several
    return before, stored(log), committed_offsets(log)


BEFORE, AFTER, COMMITTED = undisturbed()


def check(broker: CleanedBroker, log: UnifiedLog) -> None:
    log.raise_high_watermark_to_end()
    found = stored(log)
    assert set(found) <= set(BEFORE)
    assert set(found) >= set(AFTER)
    assert found == sorted(found)
    seen = committed_offsets(log)
    assert set(seen) >= set(COMMITTED)
    rows = {offset: key for offset, key, _ in BEFORE}
    assert not [offset for offset in seen if rows[offset] == b"bad"]
    assert [(each.producer_id, each.last_sequence) for each in sorted(log.producers.active())] == [(1, 5), (2, 11)]
    check_indexes(log)
    names = broker.files.list_dir(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_every_change_to_the_disk_may_be_the_last(power: bool) -> None:
    interrupted = Counter[bool]()
    for changes in range(1000):
        chance = random.Random(changes)
        broker, log = prepared()
        files = broker.files
        assert isinstance(files, SimulatedFiles)
        files.power_off_after(changes)
        try:
            broker.clean()
            broker.scheduler.tick(1)
            done = True
        except PowerOff:
            done = False
        interrupted[not done] += 1
        if power:
            files.crash(chance)
        else:
            files.kill()
        if chance.random() < 0.4:  # the recovery does not get through either
            files.power_off_after(chance.randint(0, 15))
            try:
                broker.start()
            except PowerOff:
                interrupted[True] += 1
            files.crash(chance)
        broker.start()
        log = broker.log()
        check(broker, log)
        broker.clean()
        assert stored(log) == AFTER
        assert committed_offsets(log) == COMMITTED
        check_indexes(log)
        assert not broker.cleaner.manager.uncleanable_partitions(LOG_DIR)
        assert not broker.failed_dirs
        if done:
            break
    assert interrupted[True] > 100
