"""Size-prefixed frames out of a stream of bytes: the receiving half of a channel.

Owned by the thread of the channel's Selector; no lock. Kafka: NetworkReceive, with two differences: one `recv` of up
to 64 KiB may hold many pipelined frames, which wait here as raw bytes until the frame before them has been dealt
with; and nothing is allocated because of a length prefix.

- Frames of less than 64 KiB are cut out of what `recv` returned, as `bytes`. A frame in several pieces waits in a
  list, joined when it is whole (and now and then before, so that a peer sending single bytes costs little more
  memory than it has sent).
- Larger frames are received straight into a recycled buffer, which grows with the bytes received, together with the
  four bytes after them: the next length prefix, so that a run of large frames is never copied.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from barnabas.transport.frame_buffer_pool import FrameBufferPool, PooledFrame

_LENGTH: Final = struct.Struct(">i")
_PREFIX_BYTES: Final = 4
RECEIVE_BYTES: Final = 65536
LARGE_FRAME_BYTES: Final = 65536
_LARGE_RECEIVE_BYTES: Final = 1 << 20  # at most so much of one channel at a time
_PIECES_BEFORE_JOIN: Final = 64

Frame = bytes | memoryview


class InvalidReceive(Exception):
    """A length prefix that no frame of ours can have (Kafka: InvalidReceiveException). Its channel closes."""


class FrameReader:
    """Frames of one channel. `read` receives once; `next_frame` cuts what was received before."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_max_bytes",
        "_missing",
        "_pieces",
        "_pool",
        "_position",
        "_recv",
        "_recv_into",
        "_size",
        "buffered",
        "drained",
        "ended",
        "release",
    )

    def __init__(
        self,
        recv: Callable[[int], bytes],
        recv_into: Callable[[memoryview], int],
        pool: FrameBufferPool,
        max_bytes: int,
    ) -> None:
        self._recv = recv
        self._recv_into = recv_into
        self._pool = pool
        self._max_bytes = max_bytes
        self.buffered = b""
        """Received and not cut yet: at most `RECEIVE_BYTES` and one small frame. Empty: `next_frame` has nothing."""
        self._position = 0
        # The beginning of a small frame, and how many bytes it lacks at least.
        self._pieces: list[bytes] = []
        self._missing = 0
        # The large frame being received: its buffer, its size, the bytes of it that are here.
        self._buffer: bytearray | None = None
        self._size = 0
        self._filled = 0
        self.drained = False
        """The last receive took all there was: wait for the Poller before the next one."""
        self.ended = False
        """The peer has finished sending."""
        self.release: Callable[[], None] | None = None
        """Gives the buffer of the frame returned last back; None if that frame is plain `bytes`."""

    @property
    def bytes_held(self) -> int:
        """Bytes received that belong to no returned frame yet."""
        return len(self.buffered) - self._position + sum(map(len, self._pieces)) + self._filled

    def read(self) -> Frame | None:
        """Return a frame received before, or receive once and return the first whole frame, if any.

        Raises InvalidReceive for an impossible length, OSError when the connection is gone.
        """
        if self.buffered:
            frame = self.next_frame()
            if frame is not None:
                self.drained = False  # nothing was received, so nothing is known of what else there is
                return frame
        if self._buffer is not None:
            return self._read_large()
        try:
            data = self._recv(RECEIVE_BYTES)
        except BlockingIOError:
            self.drained = True
            return None
        count = len(data)
        # A short read of a stream means that it is empty, so the call that would block can be saved (see epoll(7)).
        self.drained = count < RECEIVE_BYTES
        if self._pieces:
            return self._add_piece(data)
        if count > _PREFIX_BYTES and _LENGTH.unpack_from(data)[0] == count - _PREFIX_BYTES:
            # The usual case: one whole request.
            if count - _PREFIX_BYTES > self._max_bytes:
                raise self._invalid(count - _PREFIX_BYTES)
            self.release = None
            return data[_PREFIX_BYTES:]
        if not count:
            self.ended = True
            return None
        self.buffered = data
        self._position = 0
        return self.next_frame()

    def next_frame(self) -> Frame | None:
        """Cut the next whole frame out of what was received before; None if there is none. Raises InvalidReceive."""
        data = self.buffered
        position = self._position
        held = len(data) - position
        if held < _PREFIX_BYTES:
            if held:
                self._keep_rest(_PREFIX_BYTES)
            return None
        (size,) = _LENGTH.unpack_from(data, position)
        if not 0 <= size <= self._max_bytes:
            raise self._invalid(size)
        start = position + _PREFIX_BYTES
        end = start + size
        if end <= len(data):
            if end == len(data):
                self.buffered = b""
                self._position = 0
            else:
                self._position = end
            self.release = None
            return data[start:end]
        if size < LARGE_FRAME_BYTES:
            self._keep_rest(_PREFIX_BYTES + size)
        else:
            self._start_large(size, data[start:])
            self.buffered = b""
            self._position = 0
        return None

    def close(self) -> None:
        """Forget what was received; a buffer of the pool goes back."""
        self.buffered = b""
        self._position = 0
        self._pieces.clear()
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None
            self._filled = 0
            self._pool.give_back(buffer)

    def _invalid(self, size: int) -> InvalidReceive:
        self.buffered = b""
        if size < 0:
            return InvalidReceive(f"Invalid receive (size = {size})")
        return InvalidReceive(f"Invalid receive (size = {size} larger than {self._max_bytes})")

    def _keep_rest(self, frame_bytes: int) -> None:
        rest = self.buffered[self._position :]
        self._pieces.append(rest)
        self._missing = frame_bytes - len(rest)
        self.buffered = b""
        self._position = 0

    def _add_piece(self, data: bytes) -> Frame | None:
        if not data:
            self.ended = True
            return None
        pieces = self._pieces
        pieces.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            if len(pieces) > _PIECES_BEFORE_JOIN:
                pieces[:] = [b"".join(pieces)]
            return None
        self.buffered = b"".join(pieces)
        self._position = 0
        pieces.clear()
        return self.next_frame()

    def _start_large(self, size: int, head: bytes) -> None:
        buffer = self._pool.take()
        if len(buffer) < len(head):
            buffer.extend(bytes(len(head) - len(buffer)))
        buffer[: len(head)] = head
        self._buffer = buffer
        self._size = size
        self._filled = len(head)

    def _read_large(self) -> Frame | None:
        buffer = self._buffer
        assert buffer is not None
        filled = self._filled
        wanted = self._size + _PREFIX_BYTES  # with the next prefix, if it is there
        if filled == len(buffer):
            # Full and not whole: everything it holds has been received, so it may double.
            buffer.extend(bytes(min(wanted - filled, filled)))
        end = min(wanted, len(buffer), filled + _LARGE_RECEIVE_BYTES)
        with memoryview(buffer) as whole, whole[filled:end] as gap:
            try:
                count = self._recv_into(gap)
            except BlockingIOError:
                self.drained = True
                return None
        if not count:
            self.ended = True
            return None
        self.drained = count < end - filled
        self._filled = filled = filled + count
        if filled < self._size:
            return None
        return self._finish_large(buffer, filled)

    def _finish_large(self, buffer: bytearray, filled: int) -> Frame:
        size = self._size
        self._buffer = None
        self._filled = 0
        following = bytes(memoryview(buffer)[size:filled])
        pooled = PooledFrame(self._pool, buffer, size)
        self.release = pooled.release
        if len(following) == _PREFIX_BYTES:
            (next_size,) = _LENGTH.unpack(following)
            if LARGE_FRAME_BYTES <= next_size <= self._max_bytes:
                self._start_large(next_size, b"")
                return pooled.view
        if following:
            # A small frame, the first bytes of a prefix, or nonsense that `next_frame` will refuse.
            self.buffered = following
            self._position = 0
        return pooled.view
