"""Sockets without a kernel: connected pairs in memory, and the Poller that watches them.

Everything happens on the calling thread and only when called, so a test decides what has arrived before each turn of
a loop: no sleep, no timing. Edge-triggered like epoll: an event is reported once, when something changes.
"""

from __future__ import annotations

import errno
import itertools
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.transport.poller import ERROR, HANGUP, READ_HANGUP, READABLE, WRITABLE

DEFAULT_CAPACITY = 1 << 20
FIRST_DESCRIPTOR = 1_000_000  # far from those of the process


class MemorySocket:
    """One end of a connection. `peer` is the other; what it has received and not read is bounded by `capacity`."""

    def __init__(self, network: MemoryNetwork, address: tuple[str, int], capacity: int = DEFAULT_CAPACITY) -> None:
        self._network = network
        self._descriptor = next(network.descriptors)
        self.address = address
        self.capacity = capacity
        self.incoming = bytearray()
        self.peer: MemorySocket | None = None
        self.options: dict[tuple[int, int], int] = {}
        self.finished = False  # the peer sends nothing more
        self.broken = False  # reset by the peer
        self.closed = False
        self.connect_error = 0
        self.sends = 0
        self.receives = 0
        self._wanted_room = False

    # -- what a socket has

    def fileno(self) -> int:
        return -1 if self.closed else self._descriptor

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.receives += 1
        if not self.incoming:
            self._raise_if_broken()
            if self.finished:
                return b""
            raise BlockingIOError
        data = bytes(self.incoming[:bufsize])
        if not flags & socket.MSG_PEEK:
            del self.incoming[: len(data)]
            self._made_room()
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0, /) -> int:
        data = self.recv(nbytes or len(buffer), flags)
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0, /) -> int:
        return self.sendmsg([data], (), flags)

    def sendmsg(self, buffers: Iterable[Any], ancdata: Any = (), flags: int = 0, /) -> int:
        data = b"".join(bytes(buffer) for buffer in buffers)
        self._raise_if_broken()
        peer = self.peer
        if peer is None or peer.closed:
            raise BrokenPipeError(errno.EPIPE, "the peer is gone")
        self.sends += 1
        room = peer.capacity - len(peer.incoming)
        if room < len(data):
            self._wanted_room = True
        if room <= 0:
            raise BlockingIOError
        peer.incoming += data[:room]
        peer.notify(READABLE)
        return min(room, len(data))

    def connect_ex(self, address: Any, /) -> int:
        return self._network.connect(self, address)

    def getsockopt(self, level: int, optname: int, /) -> int:
        return self.connect_error if optname == socket.SO_ERROR else self.options.get((level, optname), 0)

    def setsockopt(self, level: int, optname: int, value: int, /) -> None:
        self.options[level, optname] = value

    def setblocking(self, flag: bool, /) -> None:
        assert not flag

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def getpeername(self) -> tuple[str, int]:
        assert self.peer is not None
        return self.peer.address

    def close(self) -> None:
        """Close; a peer with unread data of ours is reset, as TCP does."""
        if self.closed:
            return
        self.closed = True
        self._network.poller.unregister(self._descriptor, missing_ok=True)
        if self.peer is not None and not self.peer.closed:
            self.peer.finished = True
            if self.incoming:
                self.peer.broken = True
                self.peer.notify(READABLE | ERROR | HANGUP | READ_HANGUP)
            else:
                self.peer.notify(READABLE | READ_HANGUP)

    # -- what a test does

    def finish(self) -> None:
        """Send nothing more, but go on reading (a half-closed connection)."""
        assert self.peer is not None
        self.peer.finished = True
        self.peer.notify(READABLE | READ_HANGUP)

    def reset(self) -> None:
        """Vanish: the peer's next calls fail, what it has received stays readable."""
        assert self.peer is not None
        self.closed = True
        self.peer.broken = self.peer.finished = True
        self.peer.notify(READABLE | ERROR | HANGUP | READ_HANGUP)

    def take(self) -> bytes:
        """Read everything that has arrived."""
        data = bytes(self.incoming)
        self.incoming.clear()
        self._made_room()
        return data

    def notify(self, events: int) -> None:
        """Tell the Poller of a change here."""
        self._network.poller.report(self._descriptor, events | (0 if self._wanted_room else WRITABLE))

    def _made_room(self) -> None:
        peer = self.peer
        if peer is not None and not peer.closed and peer._wanted_room:
            peer._wanted_room = False
            peer.notify(WRITABLE)

    def _raise_if_broken(self) -> None:
        if self.broken:
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")


class MemoryPoller:
    """Edge-triggered readiness of MemorySockets; never waits. `timeouts` records what it was asked."""

    needs_rearm = False
    poll: Callable[[float], list[tuple[int, int]]]

    def __init__(self) -> None:
        self._registered: set[int] = set()
        self._events: dict[int, int] = {}
        self.timeouts: list[float] = []
        self.closed = False
        self.poll = self._poll

    def register(self, fd: int, *, reads_only: bool = False) -> None:
        self._registered.add(fd)
        self._events.setdefault(fd, 0)

    def unregister(self, fd: int, *, missing_ok: bool = False) -> None:
        if not missing_ok:
            self._registered.remove(fd)
        self._registered.discard(fd)
        self._events.pop(fd, None)

    def rearm(self, fd: int, events: int) -> None:
        raise AssertionError("edge-triggered: nothing to rearm")

    def close(self) -> None:
        self.closed = True

    def report(self, fd: int, events: int) -> None:
        """Something changed at `fd`; kept for a descriptor that is registered later, as epoll does."""
        self._events[fd] = self._events.get(fd, 0) | events

    def _poll(self, timeout: float) -> list[tuple[int, int]]:
        self.timeouts.append(timeout)
        events = [(fd, bits) for fd, bits in self._events.items() if bits and fd in self._registered]
        for fd, _ in events:
            self._events[fd] = 0
        return events


class MemoryNetwork:
    """Makes connections, all watched by one Poller."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.descriptors = itertools.count(FIRST_DESCRIPTOR)
        self.poller = MemoryPoller()
        self._ports = itertools.count(40_000)
        self._listening: dict[tuple[str, int], list[MemorySocket]] = {}

    def pair(self, capacity: int | None = None, host: str = "127.0.0.1") -> tuple[MemorySocket, MemorySocket]:
        """A connection: the server's end and the client's, which may receive `capacity` bytes without reading."""
        server = MemorySocket(self, ("127.0.0.1", 9092), self.capacity)
        client = MemorySocket(self, (host, next(self._ports)), capacity or self.capacity)
        server.peer, client.peer = client, server
        return server, client

    def listen(self, address: tuple[str, int]) -> list[MemorySocket]:
        """Let sockets connect to `address`; the servers' ends appear in the returned list."""
        return self._listening.setdefault(address, [])

    def open_socket(self, family: int) -> MemorySocket:
        """A socket that is going to connect."""
        return MemorySocket(self, ("127.0.0.1", next(self._ports)), self.capacity)

    def connect(self, client: MemorySocket, address: tuple[str, int]) -> int:
        """Always in progress at first, then connected or refused."""
        if address not in self._listening:
            client.connect_error = errno.ECONNREFUSED
            client.notify(READABLE | ERROR | HANGUP)
            return errno.EINPROGRESS
        server = MemorySocket(self, address, self.capacity)
        server.peer, client.peer = client, server
        self._listening[address].append(server)
        client.notify(WRITABLE)
        return errno.EINPROGRESS


def framed(*frames: bytes) -> bytes:
    """With size prefixes."""
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
