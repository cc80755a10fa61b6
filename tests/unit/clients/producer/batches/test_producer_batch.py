"""A batch ends once, tells everybody, and can be cut in pieces that keep its futures."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.producer.batches.deliveries import FinalState
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.producer_record import ProducerRecord, RecordMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import ATTRIBUTES_POSITION, CRC_POSITION, EncodedBatch, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

TP = TopicPartition("topic", 3)
OTHERS = "Failed to append record because it was part of a batch which had one more more invalid records"


def filled(count: int, codec: Codec = Codec.NONE, callback: Any = None) -> tuple[ProducerBatch, list[Any]]:
    batch = ProducerBatch(TP, codec, 100)
    futures = [
        batch.try_append(ProducerRecord(1000 + i, b"k", b"v" * 50, (), 82, callback), limit_bytes=1 << 20, ratio=1.0)
        for i in range(count)
    ]
    batch.close()
    return batch, futures


def test_the_first_completion_wins_and_callbacks_run_before_futures_are_set() -> None:
    told: list[Any] = []
    first: list[Any] = []
    batch, futures = filled(2, callback=lambda metadata, error: told.append((metadata, error, first[0].done())))
    first.append(futures[0])
    assert batch.complete(40, -1)
    assert not batch.fail(ApiError(ErrorCode.INVALID_RECORD))
    assert not batch.abort(ApiError(ErrorCode.INVALID_RECORD))
    assert batch.deliveries.final_state is FinalState.SUCCEEDED
    assert [future.result(0) for future in futures] == [
        RecordMetadata("topic", 3, 40, 1000, 1, 50),
        RecordMetadata("topic", 3, 41, 1001, 1, 50),
    ]
    assert [(entry[1], entry[2]) for entry in told] == [(None, False), (None, True)]
    batch.deliveries.wait()


def test_the_brokers_time_replaces_ours_and_acks_0_has_no_offset() -> None:
    batch, futures = filled(1)
    batch.complete(-1, 777)
    assert futures[0].result(0)[2:4] == (-1, 777)


def test_records_to_blame_and_the_others() -> None:
    batch, futures = filled(3)
    batch.fail(ApiError(ErrorCode.INVALID_RECORD, "whole batch"), {1: "no key"})
    assert [str(future.exception(0)) for future in futures] == [
        f"INVALID_RECORD: {OTHERS}",
        "INVALID_RECORD: no key",
        f"INVALID_RECORD: {OTHERS}",
    ]


def test_a_failing_callback_and_a_cancelled_future_do_not_stop_the_rest() -> None:
    def fail(metadata: RecordMetadata | None, error: BaseException | None) -> None:
        raise ValueError

    batch, futures = filled(3, callback=fail)
    futures[0].cancel()
    batch.complete(0, -1)
    assert [future.done() for future in futures] == [True] * 3
    assert futures[2].result(0).offset == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_split_keeps_order_and_futures(codec: Codec) -> None:
    batch, futures = filled(10, codec)
    batch.attempts = 2
    pieces = batch.split(250)
    assert len(pieces) > 2
    assert batch.is_done
    timestamps = []
    for index, piece in enumerate(pieces):
        assert piece.data is not None
        assert piece.codec is codec
        timestamps += [record.timestamp for record in RecordBatch(piece.data).records()]
        piece.complete(index * 100, -1)
    assert timestamps == [1000 + i for i in range(10)]
    offsets = [future.result(0).offset for future in futures]
    assert offsets == sorted(offsets)


def test_a_full_batch_takes_no_more_and_the_first_record_always_fits() -> None:
    batch = ProducerBatch(TP, Codec.NONE, 0)
    assert batch.try_append(ProducerRecord(1, None, b"v" * 500, (), 532), limit_bytes=100, ratio=1.0) is not None
    assert batch.try_append(ProducerRecord(1, None, b"v", (), 33), limit_bytes=100, ratio=1.0) is None
    assert batch.is_closed
    assert batch.try_append(ProducerRecord(1, None, b"v", (), 33), limit_bytes=10_000, ratio=1.0) is None


def test_the_ratio_estimate_lets_more_in() -> None:
    counts = []
    for ratio in (1.0, 0.25):
        batch = ProducerBatch(TP, Codec.ZSTD, 0)
        record = ProducerRecord(1, None, b"v" * 100, (), 132)
        while batch.try_append(record, limit_bytes=2000, ratio=ratio) is not None:
            pass
        counts.append(batch.record_count)
    assert counts[1] > 3 * counts[0]


def test_producer_state_is_stamped_with_a_right_checksum() -> None:
    batch, _ = filled(2, Codec.LZ4)
    batch.set_producer_state(9, 1, 55)
    assert batch.data is not None
    header = RecordBatch(batch.data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 55)
    assert header.is_valid_crc()


@pytest.mark.parametrize("is_numbered", [False, True])
def test_an_encoded_batch_gets_its_checksum_before_it_is_sent(*, is_numbered: bool) -> None:
    builder = RecordBatchBuilder()
    builder.append(7, b"k", b"v")
    whole = builder.build()
    unsealed = whole[:CRC_POSITION] + bytes(4) + whole[ATTRIBUTES_POSITION:]
    batch = ProducerBatch.ready_made(TP, EncodedBatch(unsealed, 1), 0)
    if is_numbered:
        batch.set_producer_state(9, 1, 55)
    batch.seal()
    assert batch.data is not None
    sent = RecordBatch(batch.data)
    sent.check()
    assert (sent.producer_id, sent.base_sequence) == ((9, 55) if is_numbered else (-1, -1))
    if not is_numbered:
        assert batch.data == whole == EncodedBatch(unsealed, 1).data


def test_ready_made_batches() -> None:
    builder = RecordBatchBuilder(Codec.GZIP)
    for i in range(5):
        builder.append(i, None, b"x" * 100)
    data = builder.build()
    batch = ProducerBatch.ready_made(TP, data, 0)
    assert (batch.record_count, batch.codec, batch.data) == (5, Codec.GZIP, data)
    future = batch.add_delivery(None)
    pieces = batch.split(200)
    pieces[0].complete(12, -1)
    # Until the last piece has arrived, the batch may still fail.
    assert not future.done()
    for piece in pieces[1:]:
        piece.complete(20, -1)
    assert future.result(0).offset == 12
    with pytest.raises(CorruptRecord):
        ProducerBatch.ready_made(TP, data[:-1], 0)
