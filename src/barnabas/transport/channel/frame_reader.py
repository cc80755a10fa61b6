"""The receiving half of a channel, which cuts a stream of bytes into size-prefixed frames.

Owned by the thread of the channel's Selector; no lock. Kafka: NetworkReceive. Two differences: one `recv` of up to
64 KiB may hold many pipelined frames, which wait here as raw bytes until the frame before them has been handled; and
nothing is allocated because of a length prefix.

- Frames of less than 64 KiB are cut out of what `recv` returned, as `bytes`. The pieces of an incomplete frame
  wait in a list and are joined when the frame is whole (and after every 64 pieces, so that a peer that sends single
  bytes costs little more memory than it has sent).
- Larger frames are received straight into a recycled buffer, which grows with the bytes received, together with the
  four bytes after them: the next length prefix, so that a run of large frames is never copied.
- Where memory is limited, a lease comes first for frames of 8 KiB and more; without one nothing more is received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.runtime.machine_numbers import frame_size
from barnabas.transport.frame_buffer_pool import FrameBufferPool, PooledFrame
from barnabas.transport.memory_pool import MemoryLease, MemoryPool

if TYPE_CHECKING:
    from mypy_extensions import i64

_PREFIX_BYTES: Final = 4
RECEIVE_BYTES: Final = 65536
LARGE_FRAME_BYTES: Final = 65536
_LARGE_RECEIVE_BYTES: Final = 1 << 20  # at most so much of one channel at a time
_PIECES_BEFORE_JOIN: Final = 64
LEASED_FRAME_BYTES: Final = 8 * 1024
"""The size from which a frame needs a lease, where memory is limited. The lease is requested when this many bytes of
the frame have arrived: a client that sends length prefixes alone takes no memory from others."""

FREE_BYTES: Final = 32 * 1024
"""The bytes that each channel may keep without being charged."""
TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a TLS connection: a handshake record of SSL 3.0 or later."""
HTTP_GET: Final = int.from_bytes(b"GET ", "big")

Frame = bytes | memoryview


class InvalidReceive(Exception):
    """The error for bytes that no peer may send, a length that no frame may have first of all. The channel closes.

    Kafka: InvalidReceiveException.
    """


class LeasedFrame:
    """One frame that is plain `bytes` and has a lease. `release` gives the lease back."""

    __slots__ = ("_lease", "_pool")

    def __init__(self, lease: MemoryLease, pool: MemoryPool) -> None:
        self._lease: MemoryLease | None = lease
        self._pool = pool

    def release(self) -> None:
        """Give the lease back. A second call is harmless."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._pool.release(lease)


class FrameLeases(Protocol):
    """The part of a channel's account that its FrameReader uses: ChannelMemory, which knows the channel."""

    pool: MemoryPool

    def reserve(self, size: int, *, is_small: bool = False) -> MemoryLease | None:
        """Return a lease for a whole frame, or have the channel wait. Raises ValueError for a size never given."""

    def hand_over(self) -> None:
        """Hand the lease of a whole frame over to its request."""

    def give_back(self, lease: MemoryLease) -> None:
        """Release the lease of a frame that will never be whole."""


class FrameReader:
    """The frames of one channel. `read` receives once; `next_frame` takes frames that were received before."""

    __slots__ = (
        "_buffer",
        "_data",
        "_filled",
        "_lease",
        "_max_bytes",
        "_max_request_bytes",
        "_memory",
        "_missing",
        "_pieces",
        "_pool",
        "_position",
        "_receive_bytes",
        "_recv",
        "_recv_into",
        "_size",
        "_whole_bytes",
        "buffered",
        "drained",
        "ended",
        "received",
        "release",
        "waiting",
    )

    def __init__(
        self,
        recv: Callable[[int], bytes],
        recv_into: Callable[[memoryview], int],
        pool: FrameBufferPool,
        max_bytes: int,
        memory: FrameLeases | None = None,
    ) -> None:
        """memory: the channel's account, which gives leases; None: memory is not limited."""
        self._recv = recv
        self._recv_into = recv_into
        self._pool = pool
        self._max_bytes: i64 = max_bytes
        self._max_request_bytes: i64 = max_bytes
        self._memory = memory
        # Where memory is limited, the beginning of a frame that waits for its lease is not charged, so it must be
        # small.
        self._receive_bytes: i64 = RECEIVE_BYTES if memory is None else FREE_BYTES - LEASED_FRAME_BYTES
        # The largest receive that, when it is exactly one frame, `read` returns without any bookkeeping.
        self._whole_bytes: i64 = 0
        self.limit_frames(None)
        # What was received last, at most `RECEIVE_BYTES` and a small frame; frames were cut out up to `_position`.
        self._data = b""
        self._position: i64 = 0
        self.buffered: i64 = 0
        """The number of bytes received and not cut into frames yet."""
        # The beginning of a small frame, and how many bytes it lacks at least; 0 if none has begun.
        self._pieces: list[bytes] = []
        self._missing: i64 = 0
        # The large frame being received: its buffer, its size, the bytes of it that are here.
        self._buffer: bytearray | None = None
        self._size: i64 = 0
        self._filled: i64 = 0
        self._lease: MemoryLease | None = None
        self.waiting = False
        """Whether a frame has begun that waits for its lease: nothing more is read."""
        self.received: i64 = 0
        """The bytes received in all."""
        self.drained = False
        """Whether the last receive emptied the socket: the next receive waits for the Poller's event."""
        self.ended = False
        """Whether the peer has finished sending."""
        self.release: Callable[[], None] | None = None
        """Gives back the buffer or lease of the frame that was returned last; None if that frame has neither."""

    def limit_frames(self, max_bytes: int | None) -> None:
        """Bound the frames received from now on, at most by the bound of requests; None: by that bound."""
        if max_bytes is None or max_bytes > self._max_request_bytes:
            max_bytes = self._max_request_bytes
        self._max_bytes = max_bytes
        is_leased = self._memory is not None
        self._whole_bytes = _PREFIX_BYTES + (min(max_bytes, LEASED_FRAME_BYTES - 1) if is_leased else max_bytes)

    @property
    def bytes_held(self) -> int:
        """The bytes received that belong to no returned frame yet."""
        return self.buffered + sum(map(len, self._pieces)) + self._filled

    @property
    def bytes_kept(self) -> int:
        """The memory of bytes received and not returned; 0 if the frame in progress has a lease."""
        return 0 if self._lease is not None else len(self._data) + sum(map(len, self._pieces))

    @property
    def missing(self) -> int:
        """The bytes that the frame being received lacks, as far as its size is known."""
        return self._size - self._filled if self._buffer is not None else self._missing

    def read(self) -> Frame | None:
        """Return a frame received before, or receive once and return the first whole frame, if any.

        Raises InvalidReceive for an impossible length, OSError when the connection is gone.
        """
        if self.buffered:
            frame = self.next_frame()
            if frame is not None:
                self.drained = False  # nothing was received, so the socket may hold more
                return frame
            if self.waiting:
                return None
        if self._buffer is not None:
            return self._read_large()
        try:
            data = self._recv(self._receive_bytes)
        except BlockingIOError:
            self.drained = True
            return None
        count: i64 = len(data)
        self.received += count
        # A short read means that the socket is empty, so the call that would block can be saved (epoll(7)).
        self.drained = count < self._receive_bytes
        # The beginning of a frame is waiting: these bytes continue it, and need not complete it.
        if self._missing:
            return self._add_piece(data)
        if _PREFIX_BYTES < count <= self._whole_bytes and frame_size(data, 0) == count - _PREFIX_BYTES:
            # The usual case: one whole request.
            self.release = None
            return data[_PREFIX_BYTES:]
        if not count:
            self.ended = True
            return None
        self._hold(data)
        return self.next_frame()

    def next_frame(self) -> Frame | None:
        """Return the next whole frame out of the bytes received before; None if there is none.

        Raises InvalidReceive for an impossible length.
        """
        held = self.buffered
        if held < _PREFIX_BYTES:
            if held:
                self._keep_rest(_PREFIX_BYTES)
            return None
        data = self._data
        position = self._position
        size: i64 = frame_size(data, position)
        if not 0 <= size <= self._max_bytes:
            raise self._invalid(size)
        start = position + _PREFIX_BYTES
        end = start + size
        if self._memory is not None and size >= LEASED_FRAME_BYTES:
            return self._next_leased_frame(self._memory, start, end)
        if end <= len(data):
            if end == len(data):
                self._hold(b"")
            else:
                self._position = end
                self.buffered = len(data) - end
            self.release = None
            return data[start:end]
        if size < LARGE_FRAME_BYTES:
            self._keep_rest(_PREFIX_BYTES + size)
        else:
            self._start_large(size, data[start:])
        return None

    def _next_leased_frame(self, memory: FrameLeases, start: i64, end: i64) -> Frame | None:
        """Return the whole frame between two positions, which needs a lease, or wait for its lease or its rest.

        Raises InvalidReceive for a frame that is larger than the pool ever gives.
        """
        data = self._data
        size = end - start
        is_whole = end <= len(data)
        if not is_whole and len(data) - start < LEASED_FRAME_BYTES:
            self._keep_rest(_PREFIX_BYTES + LEASED_FRAME_BYTES)
            return None
        if self._lease is None:
            try:
                self._lease = memory.reserve(size, is_small=size < LARGE_FRAME_BYTES)
            except ValueError as error:
                raise InvalidReceive(f"Invalid receive (size = {size}): {error}") from error
            self.waiting = self._lease is None
            if self._lease is None:
                # The bytes before this frame are dropped, so that a channel that waits holds nothing but the frame.
                self._hold(data[start - _PREFIX_BYTES :])
                return None
        if not is_whole:
            if size < LARGE_FRAME_BYTES:
                self._keep_rest(_PREFIX_BYTES + size)
            else:
                self._start_large(size, data[start:])
            return None
        lease, self._lease = self._lease, None
        memory.hand_over()
        self._hold(data[end:])
        self.release = LeasedFrame(lease, memory.pool).release
        return data[start:end]

    def close(self) -> None:
        """Drop the received bytes, and give the buffer and the lease back."""
        self._hold(b"")
        self._pieces.clear()
        self._missing = 0
        buffer = self._buffer
        lease, self._lease = self._lease, None
        if buffer is not None:
            self._buffer = None
            self._filled = 0
            self._pool.give_back(buffer)
        if lease is not None and self._memory is not None:
            self._memory.give_back(lease)

    def _invalid(self, size: i64) -> InvalidReceive:
        self._hold(b"")
        if size < 0:
            return InvalidReceive(f"Invalid receive (size = {size})")
        text = f"Invalid receive (size = {size} larger than {self._max_bytes})"
        if size >> 16 == TLS_HANDSHAKE:
            text += ": these bytes begin a TLS handshake; the client has to connect without TLS, or to another listener"
        elif size == HTTP_GET:
            text += ": these bytes begin an HTTP request"
        return InvalidReceive(text)

    def _hold(self, data: bytes) -> None:
        """Keep received bytes to cut frames out of them."""
        self._data = data
        self._position = 0
        self.buffered = len(data)

    def _keep_rest(self, frame_bytes: i64) -> None:
        rest = self._data[self._position :]
        self._pieces.append(rest)
        self._missing = frame_bytes - len(rest)
        self._hold(b"")

    def _add_piece(self, data: bytes) -> Frame | None:
        if not data:
            self.ended = True
            return None
        pieces = self._pieces
        pieces.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            # Each piece is an object with 33 bytes of overhead: without the join a peer that sends single bytes would
            # take 34 times as much memory as it has sent.
            if len(pieces) > _PIECES_BEFORE_JOIN:
                pieces[:] = [b"".join(pieces)]
            return None
        self._hold(b"".join(pieces))
        pieces.clear()
        self._missing = 0
        return self.next_frame()

    def _start_large(self, size: i64, head: bytes) -> None:
        buffer = self._pool.take()
        if self._lease is not None and len(buffer) > size + _PREFIX_BYTES:
            del buffer[size + _PREFIX_BYTES :]  # no more than the lease says
        if len(buffer) < len(head):
            buffer.extend(bytes(len(head) - len(buffer)))
        buffer[: len(head)] = head
        self._buffer = buffer
        self._size = size
        self._filled = len(head)
        self._hold(b"")

    def _read_large(self) -> Frame | None:
        buffer = self._buffer
        assert buffer is not None
        filled = self._filled
        wanted = self._size + _PREFIX_BYTES  # with the next prefix, if it is there
        if filled == len(buffer):
            # The buffer is full of received bytes and the frame is not whole, so the buffer doubles. A length prefix
            # alone never makes it grow.
            buffer.extend(bytes(min(wanted - filled, filled)))
        end = min(wanted, len(buffer), filled + _LARGE_RECEIVE_BYTES)
        # Both views are released here: a bytearray with views cannot be extended by the next call.
        with memoryview(buffer) as whole, whole[filled:end] as gap:
            try:
                count = self._recv_into(gap)
            except BlockingIOError:
                self.drained = True
                return None
        if not count:
            self.ended = True
            return None
        self.received += count
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
        lease = self._lease
        memory = self._memory
        if lease is None or memory is None:
            pooled = PooledFrame(self._pool, buffer, size)
        else:
            self._lease = None
            memory.hand_over()
            pooled = PooledFrame(self._pool, buffer, size, lease, memory.pool)
        self.release = pooled.release
        if memory is None and len(following) == _PREFIX_BYTES:
            next_size = frame_size(following, 0)
            if LARGE_FRAME_BYTES <= next_size <= self._max_bytes:
                self._start_large(next_size, b"")
                return pooled.view
        if following:
            # A small frame, the first bytes of a prefix, or an impossible length that `next_frame` will reject.
            self._hold(following)
        return pooled.view
