"""A relay between clients and a broker that lies about where partitions end: answers of ListOffsets are changed.

As a broker would whose high watermark is wrong.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from functools import partial

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import (
    RequestHeader,
    decode_response_header,
    parse_request_header,
    response_frame,
    response_header_version,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from tests.support.relay import Relay


class LyingRelay(Relay):
    """Adds `surplus` to each offset that ListOffsets answers."""

    def __init__(self) -> None:
        self.surplus = 0
        self.lies = 0
        """How many answers were changed."""
        super().__init__()

    def directions(self, client: socket.socket, broker: socket.socket) -> tuple[Callable[[], None], Callable[[], None]]:
        asked: dict[int, RequestHeader] = {}
        return partial(self._pass_requests, client, broker, asked), partial(self._pass_answers, broker, client, asked)

    def _pass_requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, RequestHeader]) -> None:
        """Pass requests on, and note those of ListOffsets by their correlation ids."""
        while (frame := _frame(client)) is not None:
            header, _ = parse_request_header(frame)
            if header.api_key == ApiKey.LIST_OFFSETS:
                asked[header.correlation_id] = header
            broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _pass_answers(self, broker: socket.socket, client: socket.socket, asked: dict[int, RequestHeader]) -> None:
        while (frame := _frame(broker)) is not None:
            (correlation_id,) = struct.unpack_from(">i", frame)
            header = asked.pop(correlation_id, None)
            if header is None or not self.surplus:
                client.sendall(struct.pack(">i", len(frame)) + frame)
            else:
                client.sendall(self._changed(frame, header))

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
