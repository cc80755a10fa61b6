"""The transport of a channel's bytes: its Protocol, and plaintext. A TLS transport wraps the same calls.

Used by the thread that owns the channel, so no lock. Kafka: TransportLayer, PlaintextTransportLayer.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

Buffer = bytes | bytearray | memoryview

MORE = getattr(socket, "MSG_MORE", 0)
"""A flag of `sendmsg`: more bytes follow at once, so a header and its file leave in one segment. 0 where unknown."""


_LOST: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.EPIPE,
        errno.EPROTO,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
    }
)


def is_connection_lost(error: BaseException) -> bool:
    """Return whether an error says that a connection has ended: an ordinary event, for which nothing has to be mended.

    Other errors of a socket (no descriptors left, no memory) concern this process.
    """
    return isinstance(error, OSError) and error.errno in _LOST


class StreamSocket(Protocol):
    """The part of a connected socket that is used: that of `socket.socket`, and of the tests' sockets in memory.

    All calls are non-blocking and raise BlockingIOError when they would wait, OSError when the connection is gone.
    """

    def fileno(self) -> int:
        """Return the descriptor, as registered with the Poller."""

    def recv(self, bufsize: int, flags: int = ..., /) -> bytes:
        """Receive up to `bufsize` bytes; an empty result means that the peer has finished."""

    def recv_into(self, buffer: Any, nbytes: int = ..., flags: int = ..., /) -> int:
        """Receive into `buffer`; 0 means that the peer has finished."""

    def send(self, data: Any, flags: int = ..., /) -> int:
        """Send as much of one buffer as fits; return the number of bytes."""

    def sendmsg(self, buffers: Iterable[Any], ancdata: Any = ..., flags: int = ..., /) -> int:
        """Send as much of several buffers as fits; return the number of bytes."""

    def connect_ex(self, address: Any, /) -> int:
        """Start connecting; return 0, or an errno such as EINPROGRESS."""

    def getsockopt(self, level: int, optname: int, /) -> int:
        """Read an option, SO_ERROR after a connect."""

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        """Set an option."""

    def getsockname(self) -> Any:
        """Return the local address."""

    def getpeername(self) -> Any:
        """Return the peer's address."""

    def close(self) -> None:
        """Close the descriptor."""


class TransportLayer(Protocol):
    """The transport of one channel. `recv`, `recv_into`, `send` and `sendmsg` behave as a non-blocking socket's.

    They raise BlockingIOError when they would wait, OSError when the connection is gone.
    """

    ready: bool
    """Whether the handshake is over."""

    def recv(self, bufsize: int, /) -> bytes:
        """Receive up to `bufsize` bytes; fewer mean that no more are there now, none that the peer has finished."""

    def recv_into(self, buffer: Any, /) -> int:
        """Receive into `buffer`, like `recv`."""

    def send(self, data: Any, flags: int = ..., /) -> int:
        """Send as much of one buffer as fits; return the number of bytes."""

    def sendmsg(self, buffers: Iterable[Any], ancdata: Any = ..., flags: int = ..., /) -> int:
        """Send as much of several buffers as fits; return the number of bytes."""

    def fileno(self) -> int:
        """Return the descriptor, as registered with the Poller."""

    def handshake(self) -> None:
        """Go on with the handshake as far as possible without waiting.

        Raises AuthenticationFailed when the peer cannot be trusted, OSError when the connection is gone.
        """

    def finish_connect(self) -> None:
        """Finish a connect whose socket has become writable. Raises OSError when connecting has failed."""

    def send_file(self, file_fd: int, position: int, count: int) -> int:
        """Send up to `count` bytes of a file; 0 means that the file ends before `position`."""

    def has_unread(self) -> bool:
        """Return whether the peer has left bytes that are not received yet. Called for broken connections only."""

    def close(self) -> None:
        """Close the socket."""


class PlaintextTransportLayer:
    """The plaintext transport: the socket's own calls, bound once, so a receive or a send costs no Python frame."""

    __slots__ = ("_socket", "ready", "recv", "recv_into", "send", "send_file", "sendmsg")

    def __init__(self, stream_socket: StreamSocket, *, portable_file_sends: bool = False) -> None:
        self._socket = stream_socket
        self.ready = True
        self.recv: Callable[..., bytes] = stream_socket.recv
        self.recv_into: Callable[..., int] = stream_socket.recv_into
        self.send: Callable[..., int] = stream_socket.send
        self.sendmsg: Callable[..., int] = stream_socket.sendmsg
        portable = portable_file_sends or not hasattr(os, "sendfile")
        self.send_file: Callable[[int, int, int], int] = partial(
            _read_and_send if portable else _sendfile, stream_socket
        )

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def handshake(self) -> None:
        """Do nothing: plaintext has no handshake."""

    def finish_connect(self) -> None:
        """Take the outcome of the connect. Raises OSError when the connect has failed."""
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    def has_unread(self) -> bool:
        """Return whether a byte can be peeked: a reset connection may hold requests from before the reset."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


# Functions bound to the socket, and not methods, because a transport that holds its own bound methods is a reference
# cycle: every closed connection would wait for the garbage collector.


def _sendfile(stream_socket: StreamSocket, file_fd: int, position: int, count: int) -> int:
    return os.sendfile(stream_socket.fileno(), file_fd, position, count)


def _read_and_send(stream_socket: StreamSocket, file_fd: int, position: int, count: int) -> int:
    piece = os.pread(file_fd, min(count, 65536), position)
    return stream_socket.send(piece) if piece else 0
