"""Zigzag varints against kafka-python's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import encode_varint

from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import decode_zigzag, encode_zigzag, zigzag


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_round_trip_and_equal_to_kafka_pythons(value: int, behind: bytes) -> None:
    theirs = bytearray()
    encode_varint(value, theirs.append)
    encoded = encode_zigzag(value)
    assert encoded == zigzag(value) == bytes(theirs)
    assert decode_zigzag(b"x" + encoded + behind, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x80", b"\xff" * 5 + b"\x01", b"\xff" * 12])
def test_cut_off_or_too_long(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_zigzag(data, 0, 5)


def test_bits_above_64_are_dropped_as_java_does() -> None:
    assert decode_zigzag(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)
    assert decode_zigzag(b"\xfe" + b"\xff" * 8 + b"\x7f", 0) == (2**63 - 1, 10)
