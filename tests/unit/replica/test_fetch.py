"""Reading through the replica layer: limits, fencing, and fetches that wait."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.records.file_records import FileRecords
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch
from barnabas.storage.fetch_data import FetchIsolation
from tests.unit.replica.replica_harness import ANOTHER, TOPIC_ID, US, Replicas, key
from tests.unit.storage.log_harness import batch


def at(offset: int, partition: int = 0, max_bytes: int = 1 << 20, epoch: int = -1) -> PartitionFetch:
    return PartitionFetch("topic", partition, offset, max_bytes, current_leader_epoch=epoch)


def with_batches(partitions: int = 1) -> Replicas:
    replicas = Replicas()
    for partition in range(partitions):
        replicas.lead(partition=partition)
        for _ in range(3):
            replicas.append(("topic", partition, batch(2)))
    return replicas


SIZE = len(batch(2))


def test_the_first_batch_is_whole_whatever_the_limits() -> None:
    replicas = with_batches(partitions=2)
    first, second = replicas.fetch(at(0, 0, max_bytes=10), at(0, 1, max_bytes=10))
    assert (len(first.records), len(second.records)) == (SIZE, 0)
    first, second = replicas.fetch(at(0, 0), at(0, 1), max_bytes=4 * SIZE)
    assert (len(first.records), len(second.records)) == (3 * SIZE, SIZE)


def test_old_versions_limits_are_hard() -> None:
    replicas = with_batches()
    (read,) = replicas.fetch(at(0, 0, max_bytes=10), hard_max_bytes=True)
    assert len(read.records) <= 10


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_is_fenced_by_the_epoch_it_knows(epoch: int, error: ErrorCode) -> None:
    replicas = Replicas()
    replicas.lead(leader_epoch=3)
    (read,) = replicas.fetch(at(0, epoch=epoch), max_wait_ms=500, min_bytes=0)
    assert read.error is error


def test_errors_are_answered_at_once_and_say_nothing_else() -> None:
    replicas = with_batches()
    answered = replicas.fetch(at(7), at(0, partition=5), max_wait_ms=500, min_bytes=1 << 20)
    assert [read.error for read in answered] == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [read.high_watermark for read in answered] == [-1, -1]


def test_a_topic_of_another_id_is_not_read() -> None:
    replicas = with_batches()
    (read,) = replicas.fetch(PartitionFetch("topic", 0, 0, 1000, topic_id=bytes(reversed(TOPIC_ID))))
    assert read.error is ErrorCode.INCONSISTENT_TOPIC_ID


def waiting_fetch(
    replicas: Replicas, *fetches: PartitionFetch, min_bytes: int = 1, wait_ms: int = 500
) -> list[PartitionFetch]:
    answered: list[PartitionFetch] = []
    terms = FetchTerms(wait_ms, min_bytes, 1 << 20, FetchIsolation.HIGH_WATERMARK)
    replicas.manager.reader.fetch_records(terms, fetches, answered.extend)
    assert not answered
    return answered


def test_a_waiting_fetch_is_woken_by_data() -> None:
    replicas = with_batches()
    answered = waiting_fetch(replicas, at(6))
    replicas.append(("topic", 0, batch(2)))
    assert [(read.error, len(read.records)) for read in answered] == [(ErrorCode.NONE, SIZE)]
    replicas.pass_time(1000)
    assert len(answered) == 1, "completed once"


def test_it_waits_for_min_bytes_over_all_its_partitions() -> None:
    replicas = with_batches(partitions=2)
    answered = waiting_fetch(replicas, at(6, 0), at(6, 1), min_bytes=2 * SIZE)
    replicas.append(("topic", 0, batch(2)))
    assert not answered
    replicas.append(("topic", 1, batch(2)))
    assert [len(read.records) for read in answered] == [SIZE, SIZE]


def test_it_waits_at_a_follower_for_min_bytes_below_the_watermark() -> None:
    """The watermark of a follower has no place until somebody reads up to it, and bytes are counted by places."""
    replicas = with_batches()
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    log = replicas.partition().log
    for _ in range(3):
        log.append_as_leader(batch(2), 1)
    log.update_high_watermark(6)
    answered: list[PartitionFetch] = []
    terms = FetchTerms(500, 2 * SIZE, 1 << 20, FetchIsolation.HIGH_WATERMARK, leader_only=False)
    replicas.manager.reader.fetch_records(terms, [at(6)], answered.extend)
    for watermark, is_answered in ((8, False), (10, True)):
        log.update_high_watermark(watermark)
        replicas.manager.waiting.wake_all([key()])
        replicas.manager.waiting.run_queued()
        assert bool(answered) is is_answered
    assert [(read.error, len(read.records)) for read in answered] == [(ErrorCode.NONE, 2 * SIZE)]


def test_on_time_out_it_returns_what_there_is_without_an_error() -> None:
    replicas = with_batches(partitions=2)
    answered = waiting_fetch(replicas, at(4, 0), at(6, 1), min_bytes=1 << 20)
    replicas.pass_time(501)
    assert [(read.error, len(read.records)) for read in answered] == [(ErrorCode.NONE, SIZE), (ErrorCode.NONE, 0)]


def test_it_ends_at_once_when_leadership_moves() -> None:
    replicas = with_batches()
    answered = waiting_fetch(replicas, at(6))
    replicas.lead(leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER))
    assert [read.error for read in answered] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_it_ends_at_once_when_the_topic_is_deleted() -> None:
    replicas = with_batches()
    answered = waiting_fetch(replicas, at(6))
    replicas.stop()
    assert [read.error for read in answered] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_it_ends_when_the_log_rolls_under_it() -> None:
    replicas = with_batches()
    answered = waiting_fetch(replicas, at(4), min_bytes=1 << 20)
    replicas.partition().log.roll()
    replicas.append(("topic", 0, batch(2)))
    assert [len(read.records) for read in answered] == [SIZE], "the rest of the old segment, at once"


@pytest.mark.interpreted
def test_what_was_read_before_the_wait_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaked reference keeps a deleted segment's descriptor open for ever."""
    balance = 0
    make, give_back = FileRecords.__init__, FileRecords.release

    def counted(self: FileRecords, *args: object) -> None:
        nonlocal balance
        balance += 1
        make(self, *args)  # type: ignore[arg-type]

    def released(self: FileRecords) -> None:
        nonlocal balance
        balance -= 1
        give_back(self)

    replicas = with_batches()
    monkeypatch.setattr(FileRecords, "__init__", counted)
    monkeypatch.setattr(FileRecords, "release", released)
    answered = waiting_fetch(replicas, at(0), min_bytes=1 << 20)
    assert balance == 0
    replicas.pass_time(501)
    assert balance == 1
    answered[0].release()
    assert balance == 0


def test_shutdown_answers_those_who_wait() -> None:
    replicas = with_batches()
    answered = waiting_fetch(replicas, at(6))
    replicas.manager.shutdown()
    assert [read.error for read in answered] == [ErrorCode.NONE]
