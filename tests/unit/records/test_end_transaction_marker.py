"""The control batch that ends a transaction: Kafka's bytes, and what else may stand there."""

from __future__ import annotations

import pytest

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

GOLDEN = {
    True: (
        "000000000000000000000042ffffffff029b1539570030000000000000018bcfe5687b0000018bcfe5687b0000011f71fb04cb0007ffffff"
        "ff000000012000000008000000000c00000000000300"
    ),
    False: (
        "000000000000000000000042ffffffff026f2bef1f0030000000000000018bcfe5687b0000018bcfe5687b0000011f71fb04cb0007ffffff"
        "ff000000012000000008000000010c00000000000300"
    ),
}
"""MemoryRecords.withEndTransactionMarker of Kafka 3.9.2, by whether it aborts."""


@pytest.mark.parametrize("is_abort", [True, False])
def test_bytes_are_those_of_kafka(is_abort: bool) -> None:
    marker = EndTransactionMarker(is_abort, coordinator_epoch=3, timestamp=1_700_000_000_123)
    data = marker.batch(1_234_567_890_123, 7)
    assert data.hex() == GOLDEN[is_abort]
    assert EndTransactionMarker.of(RecordBatch(data)) == marker


def control_batch(key: bytes | None, value: bytes | None) -> RecordBatch:
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(0, key, value)
    return RecordBatch(builder.build())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\0", None),
        (b"\0\0\0\0", b"\0\0\0\0\0"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        EndTransactionMarker.of(control_batch(key, value))


def test_later_versions_and_emptied_batches_are_read() -> None:
    batch = control_batch(b"\0\1\0\1 and more", b"\0\7\0\0\0\5 and more")
    assert EndTransactionMarker.of(batch) == EndTransactionMarker(False, 5, 0)
    emptied = RecordBatch(RecordBatchBuilder(producer_id=1, producer_epoch=0, is_control=True).build())
    assert emptied.length == HEADER_SIZE
    assert EndTransactionMarker.of(emptied) is None
