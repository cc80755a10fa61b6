"""A relay between clients and a broker that lies about where partitions end: answers of ListOffsets are changed.

As a broker would whose high watermark is wrong. The broker must advertise the relay's port. Threads of its own, ended
by `close`.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import (
    RequestHeader,
    decode_response_header,
    parse_request_header,
    response_frame,
    response_header_version,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from tests.support.server_process import free_port


class LyingRelay:
    """Listens on `port`; adds `surplus` to each offset that ListOffsets answers."""

    def __init__(self) -> None:
        self.port = free_port()
        self.surplus = 0
        self.lies = 0
        """How many answers were changed."""
        self._target = 0
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def relay_to(self, port: int) -> None:
        """Where connections from now on lead."""
        self._target = port

    def close(self) -> None:
        self._is_closed = True
        for each in (self._listener, *self._sockets):
            _end(each)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._target))
            self._sockets |= {client, broker}
            asked: dict[int, RequestHeader] = {}
            threading.Thread(target=self._pass_requests, args=(client, broker, asked), daemon=True).start()
            threading.Thread(target=self._pass_answers, args=(broker, client, asked), daemon=True).start()

    def _pass_requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, RequestHeader]) -> None:
        """Pass requests on, and note those of ListOffsets by their correlation ids."""
        with suppress(OSError):
            while (frame := _frame(client)) is not None:
                header, _ = parse_request_header(frame)
                if header.api_key == ApiKey.LIST_OFFSETS:
                    asked[header.correlation_id] = header
                broker.sendall(struct.pack(">i", len(frame)) + frame)
        _end(client)
        _end(broker)

    def _pass_answers(self, broker: socket.socket, client: socket.socket, asked: dict[int, RequestHeader]) -> None:
        with suppress(OSError):
            while (frame := _frame(broker)) is not None:
                (correlation_id,) = struct.unpack_from(">i", frame)
                header = asked.pop(correlation_id, None)
                if header is None or not self.surplus:
                    client.sendall(struct.pack(">i", len(frame)) + frame)
                else:
                    client.sendall(self._changed(frame, header))
        _end(broker)
        _end(client)

    def _changed(self, frame: bytes, header: RequestHeader) -> bytes:
        version = header.api_version
        _, body = decode_response_header(frame, response_header_version(header.api_key, version))
        answer, _ = ListOffsetsResponse.decode(frame, version, body)
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.offset += self.surplus
        self.lies += 1
        return b"".join(response_frame(header, answer)[0])


def _frame(source: socket.socket) -> bytes | None:
    """The next frame without its size, or None at the end of the connection."""
    size = _exactly(source, 4)
    return None if size is None else _exactly(source, struct.unpack(">i", size)[0])


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        data = source.recv(count - len(found))
        if not data:
            return None
        found += data
    return bytes(found)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
