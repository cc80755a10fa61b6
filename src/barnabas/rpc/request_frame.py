"""A request as it goes over the wire: size prefix, header, body. Pure; called by whoever sends requests."""

from __future__ import annotations

import struct
from typing import Any

from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.message import Message

_pack_size_into = struct.Struct(">i").pack_into


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    """The pieces of a whole request frame, in order; records are pieces of their own, not copied.

    Raises EncodeError for a message that cannot be written in this version.
    """
    out = bytearray(4)
    out += encode_request_header(message.api_key, version, correlation_id, client_id)
    pieces: list[Any] = message.encoders[version](message, out)
    size = len(out) if len(pieces) == 1 else sum(map(len, pieces))
    _pack_size_into(out, 0, size - 4)
    return pieces
