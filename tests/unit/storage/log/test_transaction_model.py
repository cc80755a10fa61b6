"""Transactions of several producers, interleaved at will: what a reader of committed records gets, against a model.

The model keeps every record and how its transaction ended. A reader must get exactly the records that count, below the
last stable offset, wherever it begins and in whatever pieces it reads.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch, batches
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from tests.unit.storage.log_harness import NOW, Broker, batch, log_config, produced

WRITE, COMMIT, ABORT, PLAIN, REPLICATE = "write", "commit", "abort", "plain", "replicate"
PRODUCERS = 3

STEPS = st.tuples(
    st.sampled_from([WRITE, WRITE, WRITE, COMMIT, ABORT, PLAIN, REPLICATE]),
    st.integers(0, PRODUCERS - 1),
    st.integers(1, 3),  # records; how far the watermark follows
)


class Ended(NamedTuple):
    """A transaction that has ended: its first offset and its marker's."""

    first: int
    marker: int


class Model:
    """counts: offsets of records that count for a reader. open: records of open transactions, by producer."""

    def __init__(self) -> None:
        self.counts: set[int] = set()
        self.open: dict[int, list[int]] = {}
        self.ended: list[Ended] = []
        self.high_watermark = 0

    def end(self, producer: int, marker: int, *, commits: bool) -> None:
        written = self.open.pop(producer, [])
        if written:
            self.ended.append(Ended(written[0], marker))
        if commits:
            self.counts.update(written)

    @property
    def last_stable(self) -> int:
        unstable = [written[0] for written in self.open.values()]
        unstable += [ended.first for ended in self.ended if ended.marker >= self.high_watermark]
        return min([self.high_watermark, *unstable])


def run(log: UnifiedLog, model: Model, steps: list[tuple[str, int, int]]) -> None:
    sequences = [0] * PRODUCERS
    for kind, producer, count in steps:
        end = log.log_end_offset
        if kind == WRITE:
            verification = log.producers.begin_verification(producer, 0, sequences[producer])
            assert (verification is None) == (producer in model.open)
            if verification is not None:
                log.producers.end_verification(producer, 0, verification)
            log.append_as_leader(produced(producer, sequences[producer], count, transactional=True), 0)
            sequences[producer] += count
            model.open.setdefault(producer, []).extend(range(end, end + count))
        elif kind in (COMMIT, ABORT):
            marker = EndTransactionMarker(kind == ABORT, 0, NOW)
            log.append_as_leader(marker.batch(producer, 0), 0, origin=AppendOrigin.COORDINATOR)
            model.end(producer, end, commits=kind == COMMIT)
        elif kind == PLAIN:
            log.append_as_leader(batch(count), 0)
            model.counts.update(range(end, end + count))
        else:
            # As the fetches of a follower move it: to the end of any batch.
            ends = [each.next_offset for each in stored(log) if each.next_offset > model.high_watermark]
            if ends:
                model.high_watermark = ends[min(count, len(ends)) - 1]
                log.maybe_increment_high_watermark(LogOffsetMetadata(model.high_watermark))
        assert log.last_stable_offset == model.last_stable


def stored(log: UnifiedLog) -> list[RecordBatch]:
    return [each for segment in log.local.segments.all() for each in batches(segment.file.read(0, segment.size))]


def read_committed(log: UnifiedLog, start: int, max_bytes: int) -> list[int]:
    """The offsets that a reader gets: the rules of Kafka's clients, written down once more."""
    found: list[int] = []
    while True:
        data = log.read(start, max_bytes, FetchIsolation.TXN_COMMITTED)
        content = data.records if isinstance(data.records, bytes) else data.records.read()
        assert data.aborted_transactions is not None
        aborted = sorted(data.aborted_transactions, key=lambda each: each.first_offset)
        skipped: set[int] = set()
        before = start
        for each in batches(content):
            while aborted and aborted[0].first_offset <= each.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if each.is_control:
                skipped.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in skipped):
                found += [record.offset for record in each.records() if record.offset >= before]
            start = each.next_offset
        if start == before:
            return found


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from([1, 150, 400, 100_000]))
def test_readers_get_what_counts_wherever_they_begin(steps: list[tuple[str, int, int]], max_bytes: int) -> None:
    broker = Broker(config=log_config(segment_bytes=700), manager_config=LogManagerConfig())
    log, model = broker.log(), Model()
    run(log, model, steps)
    for start in range(log.last_stable_offset + 1):
        expected = sorted(offset for offset in model.counts if start <= offset < model.last_stable)
        assert read_committed(log, start, max_bytes) == expected


@settings(max_examples=20, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_restart_changes_nothing_for_them(steps: list[tuple[str, int, int]]) -> None:
    broker = Broker(config=log_config(segment_bytes=700), manager_config=LogManagerConfig())
    log, model = broker.log(), Model()
    run(log, model, steps)
    log = broker.restart()
    model.high_watermark = log.log_end_offset
    log.raise_high_watermark_to_end()
    assert log.last_stable_offset == model.last_stable
    assert read_committed(log, 0, 100_000) == sorted(each for each in model.counts if each < model.last_stable)
