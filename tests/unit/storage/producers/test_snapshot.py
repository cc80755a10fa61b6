"""`.snapshot` files: Kafka's bytes, and every way to be torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.record_batch import MAX_SEQUENCE
from barnabas.storage.producers.entry import BatchMetadata, ProducerStateEntry
from barnabas.storage.producers.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot

NOW = 1_700_000_000_000

# Made by ProducerStateManager.writeSnapshot of Kafka 3.9.2.
EMPTY = "000148674bc700000000"
ONE = "0001a971b472000000010000011f71fb04cb00070000000500000000000003e8000000040000018bcfe5687b00000003000000000000002a"
MANY_CRC = "7208cf6d"
MANY = [100 + number for number in range(25)]
MANY_ORDER_BEGINS = [1, 115 * 1_000_003, 110 * 1_000_003]


def one() -> ProducerStateEntry:
    return ProducerStateEntry(1_234_567_890_123, 7, 3, NOW + 123, 42, BatchMetadata(5, 1000, 4, NOW + 123))


def many() -> list[ProducerStateEntry]:
    first = [
        one(),
        ProducerStateEntry(17, 0, -1, NOW + 200),
        ProducerStateEntry(1, 32767, -1, -1, batch=BatchMetadata(MAX_SEQUENCE, 2**53 + 1, 0, -1)),
    ]
    return first + [
        ProducerStateEntry(
            number * 1_000_003, 1, 0, NOW + number, batch=BatchMetadata(number, number * 10, 1, NOW + number)
        )
        for number in MANY
    ]


def fields(entry: ProducerStateEntry) -> tuple[object, ...]:
    numbers = (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp)
    return *numbers, entry.transaction_first_offset, repr(entry.batches)


def test_bytes_are_those_of_kafka() -> None:
    assert encode_snapshot([]).hex() == EMPTY
    assert encode_snapshot([one()]).hex() == ONE
    data = encode_snapshot(many())
    assert data[2:6].hex() == MANY_CRC
    assert [entry.producer_id for entry in decode_snapshot(data)][:3] == MANY_ORDER_BEGINS


INT64 = st.integers(-(2**63), 2**63 - 1)
ENTRIES = st.builds(
    ProducerStateEntry,
    INT64,
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.just(5),
    st.integers(-1, 2**63 - 1),
    st.none()
    | st.builds(BatchMetadata, st.integers(-1, MAX_SEQUENCE), st.integers(0, 2**63 - 1), st.integers(0, 9), st.just(5)),
)


@given(st.lists(ENTRIES, unique_by=lambda entry: entry.producer_id))
def test_what_is_written_is_read(entries: list[ProducerStateEntry]) -> None:
    found = decode_snapshot(encode_snapshot(entries))
    assert sorted(map(fields, found)) == sorted(map(fields, entries))


def test_only_the_newest_batch_is_kept() -> None:
    entry = one()
    entry.batches.append(BatchMetadata(9, 1004, 3, NOW + 123))
    (found,) = decode_snapshot(encode_snapshot([entry]))
    assert repr(found.batches) == repr([BatchMetadata(9, 1004, 3, NOW + 123)])


def test_every_damage_is_noticed() -> None:
    data = encode_snapshot([one()])
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size])
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(CorruptSnapshot):
                decode_snapshot(bytes(damaged))
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(4096))
