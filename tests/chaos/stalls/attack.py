"""Six connections that send the requests of a kind at once, and what becomes of them.

Each connection has a thread. It sends all its frames without waiting for answers, which a second thread reads, as a
broker may stop reading from a client whose answers are not taken. Called by the campaign, after the frames were made.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.headers import decode_response_header, parse_request_header, response_header_version
from barnabas.protocol.message_index import response_class
from barnabas.protocol.message_struct import Struct
from tests.chaos.stalls.kinds import Kind, Stage
from tests.chaos.stalls.victim import PROMPT_SECONDS, Place, receive_frame

UNANSWERED: Final = "no answer"
_LARGEST_DECODED_BYTES: Final = 1 << 20


class Attack:
    """The senders of one measurement."""

    def __init__(self, place: Place, kind: Kind, frames: Sequence[bytes], connections: int) -> None:
        self._senders = [_Sender(place, kind, frames) for _ in range(connections)]

    def start(self) -> None:
        """Begin to send, from all connections."""
        for sender in self._senders:
            sender.start()

    def is_running(self) -> bool:
        """Return whether an answer is still awaited on a connection that is open."""
        return any(sender.is_alive() for sender in self._senders)

    def wait(self, seconds: float) -> None:
        """Wait for so long at most until every request was answered, or its connection closed."""
        deadline = time.monotonic() + seconds
        for sender in self._senders:
            sender.join(max(0.0, deadline - time.monotonic()))

    def end(self) -> None:
        """Close the connections that are still open, and wait for the threads."""
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.join(PROMPT_SECONDS)

    def answers(self) -> Counter[str]:
        """Return what became of the connections, and how many had that fate; call after `end`."""
        return Counter(sender.answer() for sender in self._senders)


class _Sender(threading.Thread):
    """One connection, or one after the other for a kind whose frames have one each."""

    def __init__(self, place: Place, kind: Kind, frames: Sequence[bytes]) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._kind = kind
        self._frames = frames
        self._ended = threading.Event()
        self._connection: socket.socket | None = None
        self._fate = UNANSWERED
        self._last_answer: bytes | None = None

    def run(self) -> None:
        """Send everything."""
        rows = [[frame] for frame in self._frames] if self._kind.reconnects else [self._frames]
        for row in rows:
            if self._ended.is_set():
                return
            self._fate = UNANSWERED
            self._send_on_new_connection(row)

    def end(self) -> None:
        """Close the connection, so that the thread ends."""
        self._ended.set()
        connection = self._connection
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def answer(self) -> str:
        """Return what became of the last request: an error's name, `ok`, `closed`, or `no answer`."""
        if self._last_answer is None or self._fate == UNANSWERED:
            return self._fate
        return _answer_text(self._frames[0], self._last_answer)

    def _send_on_new_connection(self, frames: Sequence[bytes]) -> None:
        connect = self._place.connect if self._kind.stage is Stage.READY else self._place.connect_bare
        try:
            self._connection = connection = connect(PROMPT_SECONDS)
        except OSError as error:
            self._fate = f"no connection ({type(error).__name__})"
            return
        with connection:
            connection.settimeout(None)
            writer = threading.Thread(target=_send_all, args=(connection, frames), daemon=True)
            writer.start()
            try:
                for _ in frames:
                    self._last_answer = receive_frame(connection)
                self._fate = "answered"
            except (OSError, struct.error):
                self._fate = UNANSWERED if self._ended.is_set() else "closed"
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            writer.join(PROMPT_SECONDS)


def _send_all(connection: socket.socket, frames: Sequence[bytes]) -> None:
    with suppress(OSError):  # the broker has closed the connection: its reader notes that
        for frame in frames:
            connection.sendall(frame)


# -- what an answer says


def _answer_text(request: bytes, answer: bytes) -> str:
    """Return the first error that an answer names, or `ok`; an answer that is too large is not looked into."""
    if len(answer) > _LARGEST_DECODED_BYTES:
        return f"answer of {len(answer):,} bytes"
    try:
        header, _ = parse_request_header(request[4:])
        _, start = decode_response_header(answer, response_header_version(header.api_key, header.api_version))
        message, _ = response_class(header.api_key).decode(answer, header.api_version, start)
    except (DecodeError, KeyError):
        return f"answer of {len(answer):,} bytes"
    return _first_error(message) or "ok"


def _first_error(value: object) -> str | None:
    if isinstance(value, list):
        return next((found for item in value if (found := _first_error(item))), None)
    if not isinstance(value, Struct):
        return None
    for field in value.declarations:
        inner = getattr(value, field)
        if field.endswith("error_code") and inner:
            return ErrorCode(inner).name
        if found := _first_error(inner):
            return found
    return None
