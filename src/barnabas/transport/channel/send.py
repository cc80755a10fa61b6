"""The sending half of a channel: the pieces of one response or of several, in order.

Owned by the thread of the channel's Selector; no lock. One gathering write takes all pieces that are bytes; a range of
a file goes by `sendfile` (or, when small, is read and joins the write). In Kafka a Send is one response; here the
answers of a turn of the loop leave together.

Example: two answers wait, a Metadata of 200 bytes and a Fetch with a header of 80 bytes and 3 MB of a segment:

    pieces               200 bytes | 80 bytes | file range of 3 MB      unsent = 3 MB + 280
    sendmsg with MORE    the first two; MORE has the kernel wait for the file, so they leave in one segment with it
    sendfile             1 MB (`FILE_BYTES_PER_TURN`); then `write` returns False, and `writable` is still True:
                         the Selector goes on in its next turn, after the other channels
    sendfile             another turn: the socket's buffer takes 300 KB, then would block: `writable` is False, and
                         the Poller says when there is room

Kafka: Send, NetworkSend, DefaultRecordsSend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import READ_BYTES, LazyDownConversionRecords, TruncatedFile
from barnabas.transport.channel.transport_layer import MORE, TransportLayer

if TYPE_CHECKING:
    from mypy_extensions import i64

_MAX_PIECES: Final = 1024  # IOV_MAX of Linux: more in one call is an error

READ_INSTEAD_BYTES: Final = 16 * 1024
"""The size below which a file range is read, and leaves in one call with the pieces around it. Measured on loopback,
sender's CPU per range, read / sendfile: 4 KiB 5.1 / 5.5 us, 16 KiB 7.5 / 5.7, 64 KiB 23 / 16, 256 KiB 101 / 63."""

_READ_BYTES_PER_WRITE: Final = 256 * 1024
"""How much of small file ranges is read for one write, and so stays in memory if the socket takes nothing."""

FILE_BYTES_PER_TURN: Final = 1 << 20
"""How many bytes of files one channel may send a turn. One `sendfile` of 50 MB was slower than several pieces, as Kafka
sends them, and would hold up every other channel."""

CONVERSION_STEPS_PER_TURN: Final = 2
"""The number of conversion steps for old clients that one channel gets a turn: about a millisecond."""

_CONVERSION_BYTES: Final = READ_BYTES
"""The memory that one conversion holds of its file, at least."""

_HOLDING_FILES: Final[frozenset[Any]] = frozenset({FileRecords, LazyDownConversionRecords})


class Send:
    """The pieces to be sent; `unsent` is the number of bytes left."""

    __slots__ = (
        "_added",
        "_conversions",
        "_file_bytes",
        "_file_offset",
        "_files",
        "_keep_bytes",
        "_pieces",
        "_send_bytes",
        "_send_file",
        "_send_pieces",
        "unsent",
        "writable",
    )

    def __init__(self, transport: TransportLayer, keep_bytes: int = 1 << 62) -> None:
        """keep_bytes: a small file range that was read in advance is kept if it ends within so many unsent bytes."""
        self._keep_bytes = keep_bytes
        self._send_bytes = transport.send
        self._send_pieces = transport.sendmsg
        self._send_file = transport.send_file
        self._pieces: list[Any] = []
        self._files: i64 = 0
        self._file_bytes: i64 = 0  # of what is unsent: not in memory yet
        self._conversions: i64 = 0
        self._file_offset: i64 = 0  # how much of the first piece has left, if that is a file range
        self._added: i64 = 0
        self.unsent: i64 = 0
        self.writable = True
        """Whether the last write took all bytes; if not, the next write waits for the Poller."""

    def add(self, frame: list[Any]) -> i64:
        """Append the pieces of a frame: bytes-like objects and FileRecords. Returns their size in bytes."""
        pieces = self._pieces
        size: i64 = 0
        for piece in frame:
            length: i64 = len(piece)
            size += length
            if length and isinstance(piece, bytearray):  # the usual answer
                pieces.append(piece)
            elif piece.__class__ in _HOLDING_FILES:
                self._add_file(piece, length, size)
            elif length:
                pieces.append(piece)
        self.unsent += size
        self._added += size
        return size

    @property
    def sent(self) -> int:
        """The bytes that have left, in all."""
        return self._added - self.unsent

    @property
    def memory_bytes(self) -> int:
        """The bytes that are unsent and in memory: all but ranges of files."""
        return self.unsent - self._file_bytes + self._conversions * _CONVERSION_BYTES

    def _add_file(self, piece: Any, length: i64, end: i64) -> None:
        """Append a piece that holds a file. `end`: the position in the frame at which the piece ends."""
        if length == 0:
            piece.release()
            return
        if piece.__class__ is FileRecords:
            if piece.content is not None:
                if self.unsent + end <= self._keep_bytes:
                    self._pieces.append(piece.content)
                    piece.release()
                    return
                piece.content = None
        else:
            self._conversions += 1
        self._files += 1
        self._file_bytes += length
        self._pieces.append(piece)

    def write(self) -> bool:
        """Send as much as the socket takes, without waiting. Returns True once nothing is left.

        Raises OSError when the connection is gone (TruncatedFile when a file is).
        """
        pieces = self._pieces
        # The usual answer is bytes only, in few pieces: one system call, and no loop.
        if self._files or len(pieces) > _MAX_PIECES:
            return self._write_in_steps()
        try:
            written: i64 = self._send_bytes(pieces[0]) if len(pieces) == 1 else self._send_pieces(pieces)
        except BlockingIOError:
            self.writable = False
            return False
        self.unsent -= written
        if self.unsent == 0:
            pieces.clear()
            return True
        self._drop(written)
        self.writable = False
        return False

    def discard(self) -> None:
        """Release the files of all pieces, because the channel is closed."""
        for piece in self._pieces:
            if piece.__class__ in _HOLDING_FILES:
                piece.release()
        self._pieces.clear()
        self._files = self._file_bytes = self._conversions = 0
        self._added -= self.unsent
        self.unsent = 0

    def _write_in_steps(self) -> bool:
        pieces = self._pieces
        file_bytes_left = FILE_BYTES_PER_TURN
        steps_left = CONVERSION_STEPS_PER_TURN
        while pieces:
            first = pieces[0]
            try:
                if first.__class__ is LazyDownConversionRecords:
                    if steps_left <= 0:
                        return False  # still writable: the Selector goes on with it in its next turn
                    steps_left -= 1
                    self._convert_some(first)
                    continue
                if first.__class__ is FileRecords:
                    if file_bytes_left <= 0:
                        return False  # still writable: the Selector goes on with it in its next turn
                    if first.size >= READ_INSTEAD_BYTES:
                        file_bytes_left -= self._write_file(first, file_bytes_left)
                        continue
                file_bytes_left -= self._write_buffers()
            except BlockingIOError:
                self.writable = False
                return False
            if not self.writable:
                return False
        return True

    def _write_file(self, records: FileRecords, limit: int) -> int:
        """Send a piece of a file range, `limit` bytes at most. Raises TruncatedFile when the file ends before it."""
        offset = self._file_offset
        count = min(records.size - offset, limit)
        written = self._send_file(records.file.fileno(), records.position + offset, count)
        if not written:
            raise TruncatedFile(f"A file ends {records.size - offset} bytes before the range being sent")
        self.unsent -= written
        self._file_bytes -= written
        self._file_offset = offset + written
        if self._file_offset == records.size:
            del self._pieces[0]
            self._files -= 1
            self._file_offset = 0
            records.release()
        return written

    def _convert_some(self, records: LazyDownConversionRecords) -> None:
        """Take one step of a conversion. Its result goes in front of the rest, which is still to be converted."""
        piece = records.next_piece()
        self._file_bytes -= len(piece)
        if not len(records):
            del self._pieces[0]
            self._files -= 1
            self._conversions -= 1
            records.release()
        if piece:
            self._pieces.insert(0, piece)

    def _write_buffers(self) -> int:
        """Write the pieces up to the next large file range in one call; small ranges among them are read first.

        Returns how many bytes of files were read. Raises TruncatedFile when a file is shorter than its range.
        """
        pieces = self._pieces
        count = 0
        read_bytes = 0
        followed_by_file = False
        while count < len(pieces) and count < _MAX_PIECES:
            piece = pieces[count]
            if piece.__class__ is FileRecords:
                if piece.size >= READ_INSTEAD_BYTES or read_bytes >= _READ_BYTES_PER_WRITE:
                    followed_by_file = True
                    break
                read_bytes += piece.size
                pieces[count] = self._read_file(piece)
            elif piece.__class__ is LazyDownConversionRecords:
                followed_by_file = True
                break
            count += 1
        flags = MORE if followed_by_file else 0
        if count == 1:  # the usual fetch has one piece before its large range
            size = len(pieces[0])
            written = self._send_bytes(pieces[0], flags)
        else:
            batch: Sequence[Any] = pieces if count == len(pieces) else pieces[:count]
            size = sum(map(len, batch))
            written = self._send_pieces(batch, (), flags)
        self.unsent -= written
        if written == size:
            del pieces[:count]
        else:
            self._drop(written)
            self.writable = False
        return read_bytes

    def _read_file(self, records: FileRecords) -> bytes:
        """Read a small file range into memory. Raises TruncatedFile when the file ends before it."""
        data = records.read()
        if len(data) != records.size:
            raise TruncatedFile(f"A file ends {records.size - len(data)} bytes before the range being sent")
        self._files -= 1
        self._file_bytes -= len(data)
        records.release()
        return data

    def _drop(self, written: int) -> None:
        """Remove `written` bytes from the front, where there are only bytes-like pieces."""
        pieces = self._pieces
        whole = 0
        for piece in pieces:
            length = len(piece)
            if written < length:
                break
            written -= length
            whole += 1
        del pieces[:whole]
        if written:
            pieces[0] = memoryview(pieces[0])[written:]
