"""A crowd of badly behaved connections, to be put beside clients that behave: what the back-pressure exam is made of.

One thread drives them all, a step of each every few milliseconds, on non-blocking sockets. Who is thrown out by the
broker comes back at once. What a member does is a generator: it yields bytes to send (a piece at a time), None to
wait for its next step, or a number of bytes to read.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Self

Behaviour = Callable[[], Iterator[bytes | int | None]]

STEP_SECONDS = 0.05
SEND_BYTES = 256 * 1024  # of one member in one step, so that its turn does not hold up the others


class Member:
    """One connection of the crowd, over and over again."""

    def __init__(self, address: tuple[str, int], kind: str, behaviour: Behaviour) -> None:
        self.kind = kind
        self._address = address
        self._behaviour = behaviour
        self._socket: socket.socket | None = None
        self._steps: Iterator[bytes | int | None] = iter(())
        self._unsent = b""

    def connect(self) -> None:
        """Begin anew."""
        self._socket = socket.socket()
        # A small window, so that what it does not read stays with the broker.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(self._address)
        self._socket.setblocking(False)
        self._steps = self._behaviour()
        self._unsent = b""

    def step(self) -> bool:
        """Go on until it would wait; False if the broker has closed the connection."""
        assert self._socket is not None
        sent = 0
        try:
            while sent < SEND_BYTES:
                if not self._unsent:
                    following = next(self._steps)
                    if following is None:
                        break
                    if isinstance(following, int):
                        if not self._socket.recv(following):
                            return False
                        break
                    self._unsent = following
                count = self._socket.send(self._unsent[:SEND_BYTES])
                self._unsent = self._unsent[count:]
                sent += count
        except (BlockingIOError, StopIteration):
            pass
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Leave without a word."""
        if self._socket is not None:
            self._socket.close()


class Crowd:
    """Members by kind, `running` inside a with block; `thrown_out` counts those whom the broker closed."""

    def __init__(self, address: tuple[str, int], kinds: Mapping[str, tuple[int, Behaviour]]) -> None:
        self.members = [
            Member(address, kind, behaviour) for kind, (count, behaviour) in kinds.items() for _ in range(count)
        ]
        self.thrown_out: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crowd")

    def __enter__(self) -> Self:
        for member in self.members:
            member.connect()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for member in self.members:
            member.close()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                started = time.monotonic()
                for member in self.members:
                    if not member.step():
                        self.thrown_out[member.kind] += 1
                        member.close()
                        with suppress(ConnectionResetError):
                            member.connect()
                self._ended.wait(max(STEP_SECONDS - (time.monotonic() - started), 0.001))
        except Exception as error:  # noqa: BLE001 - told by the thread that ends the crowd
            self.failure = error


def nothing() -> Iterator[None]:
    """Connects, and says nothing."""
    return itertools.repeat(None)


def only(beginning: bytes) -> Behaviour:
    """Sends the beginning of a frame, and nothing more."""

    def behaviour() -> Iterator[bytes | None]:
        yield beginning
        yield from itertools.repeat(None)

    return behaviour


def drip(frame: bytes, beginning_bytes: int, drop_bytes: int) -> Behaviour:
    """Sends a frame's beginning, then a drop each step."""

    def behaviour() -> Iterator[bytes | None]:
        yield frame[:beginning_bytes]
        for position in range(beginning_bytes, len(frame), drop_bytes):
            yield None
            yield frame[position : position + drop_bytes]
        yield from itertools.repeat(None)

    return behaviour


def never_read(frame: bytes, count: int) -> Behaviour:
    """Asks so many times, and reads no answer."""

    def behaviour() -> Iterator[bytes | None]:
        for _ in range(count):
            yield frame
        yield from itertools.repeat(None)

    return behaviour


def read_slowly(frame: bytes, sip_bytes: int) -> Behaviour:
    """Asks once, and then reads a sip each step."""

    def behaviour() -> Iterator[bytes | int | None]:
        yield frame
        yield from itertools.repeat(sip_bytes)

    return behaviour
