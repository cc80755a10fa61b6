"""A request as it goes over the wire, and the answer to it as it comes back.

Called by NetworkClient on its thread. Pure. Kafka: NetworkClient.doSend, parseResponse.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.message_index import response_class
from barnabas.protocol.messages.message import Message
from barnabas.rpc.in_flight_requests import InFlightRequest
from barnabas.transport.frame_reader import Frame

_pack_size_into = struct.Struct(">i").pack_into
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION)


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    """Return the pieces of a whole request frame, in order; records are pieces of their own and are not copied.

    Raises EncodeError: the message cannot be written in this version.
    """
    # Room for the size, which is known last; one buffer for size, header and body saves a copy.
    out = bytearray(4)
    out += encode_request_header(message.api_key, version, correlation_id, client_id)
    pieces: list[Any] = message.encoders[version](message, out)
    size = len(out) if len(pieces) == 1 else sum(map(len, pieces))
    _pack_size_into(out, 0, size - 4)
    return pieces


def decode_answer(in_flight: InFlightRequest, frame: Frame) -> Message:
    """Decode the answer to a request. Raises DecodeError, also when the answer belongs to another request."""
    request = in_flight.request
    version = in_flight.version
    correlation_id, position = decode_response_header(frame, response_header_version(request.api_key, version))
    if correlation_id != request.correlation_id:
        raise DecodeError(f"Correlation id for response ({correlation_id}) does not match request's")
    if request.api_key == ApiKey.API_VERSIONS:
        # A node that does not know our version answers as version 0, whatever it was asked in (KIP-511).
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        if error_code == _UNSUPPORTED_VERSION:
            version = 0
    body, _ = response_class(request.api_key).decode(frame, version, position)
    return body
