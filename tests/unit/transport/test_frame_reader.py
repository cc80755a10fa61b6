"""Frames out of any chunking, memory bounded by what was received, and nothing but InvalidReceive for nonsense."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.transport.channel.frame_reader import LARGE_FRAME_BYTES, FrameReader, InvalidReceive
from barnabas.transport.frame_buffer_pool import FIRST_BYTES, FrameBufferPool
from tests.support.memory_network import framed

MAX_BYTES = 400_000


class Stream:
    """Gives out `chunks`, one per receive at most, then would block."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = list(chunks)
        self.given = 0

    def recv(self, size: int) -> bytes:
        if not self.chunks:
            raise BlockingIOError
        chunk = self.chunks.pop(0)
        if len(chunk) > size:
            self.chunks.insert(0, chunk[size:])
            chunk = chunk[:size]
        self.given += len(chunk)
        return chunk

    def recv_into(self, buffer: memoryview) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def reader_of(chunks: list[bytes], pool: FrameBufferPool | None = None, max_bytes: int = MAX_BYTES) -> FrameReader:
    stream = Stream(chunks)
    return FrameReader(stream.recv, stream.recv_into, pool or FrameBufferPool(fail_on_leak=True), max_bytes)


def read_all(reader: FrameReader, turns: int) -> list[bytes]:
    """Every frame, released at once, as a Processor would."""
    frames = []
    for _ in range(turns):
        frame: Any = reader.read()
        while frame is not None:
            frames.append(bytes(frame))
            del frame
            if reader.release is not None:
                reader.release()
            frame = reader.next_frame()
    return frames


sizes = st.one_of(
    st.integers(0, 40),
    st.integers(LARGE_FRAME_BYTES - 6, LARGE_FRAME_BYTES + 6),
    st.integers(60_000, 140_000),
)


@settings(max_examples=40)
@given(st.lists(sizes, max_size=5), st.data())
@example([LARGE_FRAME_BYTES, 3, LARGE_FRAME_BYTES, 0, 200_000, 200_001], None)
def test_any_chunking_gives_the_same_frames(frame_sizes: list[int], data: Any) -> None:
    frames = [bytes([index % 251]) * size for index, size in enumerate(frame_sizes)]
    stream = framed(*frames)
    chunks = []
    position = 0
    while position < len(stream):
        size = data.draw(st.one_of(st.integers(1, 10), st.integers(1, 100_000))) if data else 65_536
        chunks.append(stream[position : position + size])
        position += size
    assert read_all(reader_of(chunks), 2 * len(chunks) + 10) == frames


def test_single_bytes_cost_little_more_than_themselves() -> None:
    frame = bytes(range(256)) * 16
    stream = framed(frame)
    reader = reader_of([stream[i : i + 1] for i in range(len(stream))])
    for _ in range(len(stream) - 1):
        assert reader.read() is None
        assert len(reader._pieces) <= 66
    assert reader.read() == frame


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_BYTES + 1, 2**31 - 1])
def test_an_impossible_length_is_refused(size: int) -> None:
    with pytest.raises(InvalidReceive, match=str(size)):
        reader_of([struct.pack(">i", size) + b"abc"]).read()


def test_a_whole_small_frame_over_a_small_limit_is_refused() -> None:
    with pytest.raises(InvalidReceive):
        reader_of([framed(bytes(101))], max_bytes=100).read()


def test_an_impossible_length_after_good_frames_keeps_those() -> None:
    reader = reader_of([framed(b"one", b"two") + b"\xff\xff\xff\xff"])
    assert reader.read() == b"one"
    assert reader.next_frame() == b"two"
    with pytest.raises(InvalidReceive):
        reader.next_frame()


def test_an_impossible_length_behind_a_large_frame_is_refused_after_it() -> None:
    reader = reader_of([framed(bytes(100_000))[:65_536], framed(bytes(100_000))[65_536:] + b"\x7f\xff\xff\xff"])
    assert reader.read() is None
    frame = reader.read()
    assert frame is not None
    assert len(frame) == 100_000
    with pytest.raises(InvalidReceive):
        reader.next_frame()


def test_a_length_prefix_allocates_nothing() -> None:
    pool = FrameBufferPool()
    stream = Stream([struct.pack(">i", 2**31 - 1), b"x" * 10, b"y" * 200_000])
    reader = FrameReader(stream.recv, stream.recv_into, pool, 2**31 - 1)
    assert reader.read() is None
    assert reader._buffer is None or len(reader._buffer) <= FIRST_BYTES
    for _ in range(8):
        assert reader.read() is None
        assert reader._buffer is None or len(reader._buffer) <= max(2 * stream.given, FIRST_BYTES)
    assert reader.bytes_held == stream.given - 4


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_random_bytes_only_ever_raise_invalid_receive(chunks: list[bytes]) -> None:
    reader = reader_of([chunk for chunk in chunks if chunk])
    try:
        for _ in range(len(chunks) + 1):
            reader.read()
            while reader.next_frame() is not None:
                pass
    except InvalidReceive:
        pass
    assert reader.bytes_held <= sum(map(len, chunks))


def test_large_frames_use_the_same_buffer_again() -> None:
    pool = FrameBufferPool(fail_on_leak=True)
    frames = [bytes([n]) * 100_000 for n in range(5)]
    stream = framed(*frames)
    reader = reader_of([stream[i : i + 50_000] for i in range(0, len(stream), 50_000)], pool)
    assert read_all(reader, 30) == frames
    assert pool.recycled >= 3


def test_a_buffer_whose_views_are_alive_is_not_used_again() -> None:
    pool = FrameBufferPool(fail_on_leak=False)
    reader = reader_of([framed(b"a" * 100_000), framed(b"b" * 100_000)], pool)
    frame = None
    while frame is None:
        frame = reader.read()
    records = frame[10:20]
    assert reader.release is not None
    reader.release()
    while (second := reader.read()) is None:
        pass
    assert bytes(records) == b"a" * 10
    assert bytes(second[:2]) == b"bb"
    assert (pool.leaked, pool.recycled) == (1, 0)


def test_the_end_of_the_stream_is_seen() -> None:
    reader = reader_of([b"\0\0\0\5ab", b""])
    assert reader.read() is None
    assert reader.read() is None
    assert reader.ended


def test_close_gives_a_half_filled_buffer_back() -> None:
    pool = FrameBufferPool(fail_on_leak=True)
    reader = reader_of([struct.pack(">i", 300_000) + bytes(1000), bytes(500)], pool)
    reader.read()
    reader.read()
    reader.close()
    assert reader.bytes_held == 0
    pool.take()
    assert pool.recycled == 1
