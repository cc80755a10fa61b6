"""Buffers of one size, and what is decompressed by way of them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas.records.compression import Codec, compress, decompress
from barnabas.records.errors import CorruptRecord
from barnabas.records.recycling_memory_pool import RecyclingMemoryPool


def test_a_larger_buffer_is_an_error() -> None:
    pool = RecyclingMemoryPool(100, kept_buffers=2)
    assert len(pool.allocate(100)) == len(pool.allocate(1)) == 100
    with pytest.raises(ValueError, match="101 bytes asked from a pool whose buffers have 100"):
        pool.allocate(101)


def test_the_last_buffer_is_used_again_and_few_are_kept() -> None:
    pool = RecyclingMemoryPool(100, kept_buffers=2)
    buffers = [pool.allocate(100) for _ in range(3)]
    assert len({id(buffer) for buffer in buffers}) == 3
    for buffer in buffers:
        pool.release(buffer)
    pool.release(bytearray(99))  # of another size
    assert pool.idle_buffers == 2
    assert pool.allocate(1) is buffers[2]
    assert pool.allocate(1) is buffers[1]
    assert pool.idle_buffers == 0


def test_batches_see_nothing_of_each_other() -> None:
    """Threads that decompress at once, short outputs after long ones, limits, and damage in between."""

    def run(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(200):
            data = chance.randbytes(chance.randint(1, 30)) * chance.choice((1, 10, 500, 4000))
            codec = chance.choice((Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, Codec.GZIP))
            stored = compress(codec, data)
            assert decompress(codec, stored, len(data)) == data
            with pytest.raises(CorruptRecord):
                decompress(codec, stored, len(data) - 1)
            with pytest.raises(CorruptRecord):
                decompress(codec, stored[:-1], 1 << 20)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
