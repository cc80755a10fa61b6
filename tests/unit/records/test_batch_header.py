"""The header as it is read once: the same fields as RecordBatch, or None."""

from __future__ import annotations

import pytest

from barnabas.records.compression import Codec
from barnabas.records.record_batch import HEADER_SIZE, BatchHeader, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder


def build(**fields: int) -> bytes:
    builder = RecordBatchBuilder(Codec.ZSTD, **fields)  # type: ignore[arg-type]
    builder.append(5, b"key", b"value")
    builder.append(9, None, b"value")
    return builder.build()


def test_fields() -> None:
    data = build(base_offset=3, producer_id=7, producer_epoch=2, base_sequence=4, is_transactional=True)
    batch = RecordBatch(data)
    for given in (data, bytearray(data), memoryview(data), data + b"more", data[:HEADER_SIZE]):
        header = BatchHeader.parse(given)
        assert header is not None
        for name in ("base_offset", "crc", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp"):
            assert getattr(header, name) == getattr(batch, name)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 4)
        assert (header.length, header.count, header.codec_id) == (len(data), 2, Codec.ZSTD)
        assert (header.is_transactional, header.is_control, header.is_stamped) == (True, False, False)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_other_magic_has_no_such_header(magic: int) -> None:
    data = bytearray(build())
    data[16] = magic
    assert BatchHeader.parse(data) is None


@pytest.mark.parametrize("size", [0, 1, 17, HEADER_SIZE - 1])
def test_cut_off(size: int) -> None:
    assert BatchHeader.parse(build()[:size]) is None
