"""What the pool keeps, and its proof that nobody looks at a buffer any more."""

from __future__ import annotations

import pytest

from barnabas.transport.frame_buffer_pool import FIRST_BYTES, FrameBufferPool, PooledFrame


def test_the_buffer_used_last_comes_first() -> None:
    pool = FrameBufferPool()
    first, second = pool.take(), pool.take()
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take() is second
    assert pool.take() is first
    assert pool.recycled == 2


def test_it_keeps_no_more_than_its_limits() -> None:
    pool = FrameBufferPool(keep_bytes=2 * FIRST_BYTES, largest_bytes=FIRST_BYTES)
    buffers = [pool.take() for _ in range(3)]
    for buffer in buffers:
        pool.give_back(buffer)
    pool.give_back(bytearray(FIRST_BYTES + 1))
    for _ in range(4):
        pool.take()
    assert pool.recycled == 2


def test_a_view_that_is_left_is_an_error_in_tests() -> None:
    pool = FrameBufferPool(fail_on_leak=True)
    frame = PooledFrame(pool, pool.take(), 100)
    slice_of_it = frame.view[3:9]
    with pytest.raises(BufferError):
        frame.release()
    assert len(slice_of_it) == 6


def test_releasing_twice_gives_back_once() -> None:
    pool = FrameBufferPool(fail_on_leak=True)
    frame = PooledFrame(pool, pool.take(), 100)
    frame.release()
    frame.release()
    assert pool.take() is not pool.take()
    with pytest.raises(ValueError, match="released"):
        len(frame.view)


def test_what_nobody_needed_since_the_last_look_is_let_go() -> None:
    pool = FrameBufferPool()
    burst = [pool.take() for _ in range(5)]
    for buffer in burst:
        pool.give_back(buffer)
    pool.drop_unused()
    assert pool.idle_bytes == 5 * FIRST_BYTES  # they have just been used
    for _ in range(3):
        first, second = pool.take(), pool.take()
        pool.give_back(first)
        pool.give_back(second)
    pool.drop_unused()
    assert pool.idle_bytes == 2 * FIRST_BYTES
    pool.drop_unused()
    assert pool.idle_bytes == 0
