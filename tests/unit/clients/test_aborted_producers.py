"""Which batches of an answer belong to transactions that were aborted."""

from __future__ import annotations

from barnabas.clients.aborted_producers import AbortedProducers
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder


def batch(offset: int, producer_id: int, *, is_transactional: bool = True) -> RecordBatch:
    builder = RecordBatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional
    )
    builder.append(1, None, b"value")
    return RecordBatch(builder.build())


def aborted(producer_id: int, first_offset: int) -> FetchResponse.AbortedTransaction:
    return FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def test_a_producer_is_aborting_from_the_first_offset_until_its_marker() -> None:
    producers = AbortedProducers([aborted(7, 20), aborted(7, 10)])
    assert not producers.has_batch(batch(9, 7))
    assert producers.has_batch(batch(10, 7))
    assert not producers.has_batch(batch(11, 8))
    assert not producers.has_batch(batch(12, 7, is_transactional=False))
    assert producers.has_batch(batch(13, 7))
    producers.pass_marker(batch(14, 7))
    assert not producers.has_batch(batch(15, 7))
    assert producers.has_batch(batch(20, 7))


def test_a_marker_ends_a_transaction_without_batches_in_the_answer() -> None:
    producers = AbortedProducers([aborted(7, 10)])
    producers.pass_marker(batch(14, 7))
    assert not producers.has_batch(batch(15, 7))
