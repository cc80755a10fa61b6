"""The consumer's decoder in batches of many uniform records. Others: tests/unit/records/test_every_reader.py."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from barnabas.clients.consumer.fetch.batch_records import BatchRecords
from barnabas.clients.consumer.fetch.uniform_records import KnownShapes
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

TP0 = TopicPartition("t", 0)


class Decoded(NamedTuple):
    """The records in front of the first bad one, and whether there is a bad one."""

    records: list[tuple[object, ...]]
    is_corrupt: bool


def uniform_batch(chance: Random) -> bytes:
    """Records of one shape, with a different one here and there, as most programs produce them."""
    builder = RecordBatchBuilder(base_offset=chance.randrange(1 << 40))
    key_size, value_size = (chance.choice((None, 0, 1, 20, 63, 64, 500)) for _ in range(2))
    steps = chance.choice(((0,), (0, 1), (0, 0, 0, 700), (5, -5)))
    timestamp, offset = 1_700_000_000_000, chance.choice((0, 0, 8000))
    for _ in range(chance.choice((5, 300, 1500))):
        timestamp += chance.choice(steps)
        offset += 1 if chance.random() < 0.99 else chance.choice((2, 60))
        key, value = (None if size is None else chance.randbytes(size) for size in (key_size, value_size))
        headers = []
        if chance.random() < 0.01:
            key, value = chance.choice(((None, b"odd"), (b"odd", None), (value, key)))
            headers = chance.choice(([], [("h", b"x")]))
        builder.append(timestamp, key, value, headers, offset=builder.base_offset + offset)
    return builder.build()


def carefully(batch: RecordBatch) -> Decoded:
    records: list[tuple[object, ...]] = []
    try:
        for offset, timestamp, key, value, headers in batch.records():
            records.append(("t", 0, offset, timestamp, batch.timestamp_type, key, value, headers))
    except CorruptRecord:
        return Decoded(records, True)
    return Decoded(records, False)


def quickly(batch: RecordBatch, limit: int) -> Decoded:
    records: list[tuple[object, ...]] = []
    try:
        decoder = BatchRecords(TP0, batch, KnownShapes())
        while not decoder.is_done:
            records += decoder.take(limit)
    except CorruptRecord:
        return Decoded(records, True)
    return Decoded(records, False)


@pytest.mark.parametrize("seed", range(60))
def test_uniform_records_are_decoded_alike(seed: int) -> None:
    chance = Random(seed)
    good = uniform_batch(chance)
    batch = RecordBatch(good)
    expected = carefully(batch)
    assert not expected.is_corrupt
    assert quickly(batch, chance.choice((1, 7, 500, 5000))) == expected
    for _ in range(10):
        damaged = bytearray(good)
        damaged[chance.randrange(HEADER_SIZE, len(good))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        batch = RecordBatch(bytes(damaged))
        assert quickly(batch, chance.choice((7, 5000))) == carefully(batch)
