"""Kafka's golden values, and kafka-python as an oracle: a key must land where every other client puts it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from barnabas.clients.producer.partition_choice import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_golden_values_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_equal_to_kafka_python(key: bytes, partitions: int) -> None:
    theirs = kafka_python_murmur2(key)
    assert murmur2(key) == theirs & 0xFFFFFFFF
    assert partition_for_key(key, partitions) == (theirs & 0x7FFFFFFF) % partitions
