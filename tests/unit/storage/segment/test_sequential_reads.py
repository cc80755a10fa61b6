"""A reader that goes on where it stopped needs no search, and finds what it would have found."""

from __future__ import annotations

import random

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.file_records import FileRecords
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import Broker, batch

EPOCH = 1


def read(log: UnifiedLog, offset: int, max_bytes: int) -> tuple[bytes, bool]:
    """The bytes, and whether they came with the search."""
    data = log.read(offset, max_bytes, FetchIsolation.LOG_END)
    assert isinstance(data.records, FileRecords)
    content, at_once = data.records.read(), data.records.content is not None
    data.release()
    return content, at_once


def restarted_log(sizes: list[int]) -> tuple[UnifiedLog, list[bytes]]:
    """A log of batches of two records whose newest batches are not in memory, and the batches as stored."""
    broker = Broker()
    log = broker.log()
    for size in sizes:
        log.append_as_leader(batch(2, size=size), EPOCH)
    log = broker.restart()
    stored = [read(log, 2 * number, 1)[0] for number in range(len(sizes))]
    return log, stored


@pytest.mark.parametrize("min_one_message", [True, False])
@pytest.mark.parametrize("max_bytes", [-1, -(2**31)])
def test_a_negative_size_is_refused_where_there_is_something_to_read(max_bytes: int, min_one_message: bool) -> None:
    """As Kafka does it (LogSegment.read): not at the end of the log, where nothing is looked up."""
    log, _ = restarted_log([100] * 3)
    for offset in (0, 2, 5):
        with pytest.raises(ApiError) as refused:
            log.read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert f"Invalid max size {max_bytes}" in str(refused.value)
    assert len(log.read(6, max_bytes, FetchIsolation.LOG_END, min_one_message).records) == 0


def test_the_batch_behind_the_last_one_is_read_at_once() -> None:
    log, stored = restarted_log([5000] * 20)
    found = [read(log, 2 * number, len(stored[0])) for number in range(20)]
    assert [content for content, _ in found] == stored
    # The log was read batch by batch before, but with a limit below the batch, which needs its size first.
    assert [at_once for _, at_once in found[1:]] == [True] * 19
    assert read(log, 6, len(stored[0]) + 100)[0] == stored[3] + stored[4][:100]


def test_any_order_of_reads_gives_what_a_search_gives() -> None:
    chance = random.Random(4)
    log, stored = restarted_log([chance.choice([10, 300, 6000, 70_000]) for _ in range(40)])
    whole = b"".join(stored)
    starts = [0]
    for content in stored:
        starts.append(starts[-1] + len(content))
    offset = 0
    for _ in range(2000):
        if chance.random() < 0.2:
            offset = chance.randrange(80)
        max_bytes = chance.choice([1, 100, 700, 13_000, 65_536, 150_000])
        content, _ = read(log, offset, max_bytes)
        number = offset // 2
        assert content == whole[starts[number] :][: max(max_bytes, len(stored[number]))]
        offset = RecordBatch(content).next_offset % 80


def test_what_was_truncated_is_not_expected_any_more() -> None:
    log, stored = restarted_log([3000] * 4)
    assert read(log, 2, len(stored[1]))[0] == stored[1]  # from here on offset 4 is expected behind it
    log.truncate_to(2)
    for size in (100, 200):
        log.append_as_leader(batch(1, size=size), EPOCH)
        log.append_as_leader(batch(2, size=size), EPOCH)
    for offset, first in ((2, 2), (3, 3), (4, 3), (5, 5)):
        assert RecordBatch(read(log, offset, 5000)[0]).base_offset == first


def test_a_large_batch_is_found_with_one_read() -> None:
    files = SimulatedFiles()
    broker = Broker(files)
    log = broker.log()
    for _ in range(6):
        log.append_as_leader(batch(2, size=30_000), EPOCH)
    log = broker.restart()
    calls: list[str] = []

    def note(call: str, path: str) -> None:
        if path.endswith(".log"):
            calls.append(call)

    files.fault = note
    for offset in (5, 6, 8):  # the index is in memory
        calls.clear()
        log.read(offset, 1 << 20, FetchIsolation.LOG_END).release()
        assert calls.count("read") == 1
