"""The numbering of one partition, in cases that the sender hardly meets: numbers that wrap, batches that are split."""

from __future__ import annotations

import pytest

from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import PartitionSequences, ProducerIdentity, is_before
from barnabas.clients.producer.producer_record import ProducerRecord
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch import MAX_SEQUENCE, RecordBatch

IDENTITY = ProducerIdentity(100, 0)
LAST = MAX_SEQUENCE


def batch(count: int) -> ProducerBatch:
    made = ProducerBatch(TopicPartition("t", 0), Codec.NONE, 0)
    for _ in range(count):
        assert made.try_append(ProducerRecord(1, None, b"v", (), 33), limit_bytes=10_000, ratio=1.0)
    made.in_flight = True
    return made


@pytest.mark.parametrize(
    ("sequence", "other", "expected"),
    [(0, 1, True), (1, 0, False), (5, 5, False), (LAST, 0, True), (0, LAST, False), (LAST - 2, 3, True)],
)
def test_numbers_wrap(sequence: int, other: int, expected: bool) -> None:
    assert is_before(sequence, other) is expected


def test_a_partition_goes_on_behind_the_last_number() -> None:
    partition = PartitionSequences(IDENTITY)
    partition._next = LAST - 3
    batches = [batch(2), batch(5), batch(1)]
    for each in batches:
        partition.number(each)
    assert [each.base_sequence for each in batches] == [LAST - 3, LAST - 1, 4 - 1]
    partition.acknowledged(batches[0])
    partition.given_up(batches[1])
    assert partition.has_gap
    partition.acknowledged(batches[2])
    assert partition.is_intact, "the broker has taken the number behind the gap"
    late = batch(1)
    late.base_sequence = LAST
    assert partition.is_overtaken(late)


def test_the_pieces_of_a_batch_share_its_numbers() -> None:
    partition = PartitionSequences(IDENTITY)
    whole, behind = batch(6), batch(1)
    partition.number(whole)
    partition.number(behind)
    whole.close()
    pieces = whole.split(105)
    partition.replace(whole, pieces)
    assert [(piece.base_sequence, piece.record_count) for piece in pieces] == [(0, 2), (2, 2), (4, 2)]
    assert partition.pending == [*pieces, behind]
    partition.restart(ProducerIdentity(100, 1))
    headers = [RecordBatch(piece.data or b"") for piece in pieces]
    assert [(header.producer_epoch, header.base_sequence) for header in headers] == [(1, 0), (1, 2), (1, 4)]
    assert behind.base_sequence == 6


def test_no_more_batches_than_the_broker_remembers_are_sent_behind_one_without_an_answer() -> None:
    partition = PartitionSequences(IDENTITY)
    first = batch(1)
    partition.number(first)
    partition.acknowledged(first)
    unanswered = batch(1)
    partition.number(unanswered)
    for _ in range(4):
        assert partition.takes_new(IDENTITY)
        later = batch(1)
        partition.number(later)
        partition.acknowledged(later)
    assert not partition.takes_new(IDENTITY)
    partition.acknowledged(unanswered)
    assert partition.takes_new(IDENTITY)
