"""The requests in flight to each node: their frames on the wire, the answers to them, and their queues.

The queues are owned by the NetworkClient's thread; no lock. `request_frame` and `decode_answer` are pure.

Kafka: InFlightRequests, NetworkClient.doSend, NetworkClient.parseResponse.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, ErrorCode
from barnabas.protocol.headers import decode_response_header, encode_request_header, response_header_version
from barnabas.protocol.message_index import response_class
from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import ClientRequest
from barnabas.transport.channel.frame_reader import Frame

_pack_size_into = struct.Struct(">i").pack_into
MAX_CORRELATION_ID: Final = 2**31 - 1
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION)


class InFlightRequest:
    """A request with the version it was sent in and the time it was handed to the selector (monotonic ms)."""

    __slots__ = ("completed_send", "internal", "request", "sent_ms", "version")

    def __init__(self, request: ClientRequest, version: int, sent_ms: int, *, internal: bool) -> None:
        self.request = request
        self.version = version
        self.sent_ms = sent_ms
        self.internal = internal
        """Whether the client itself sent it: ApiVersions, or Metadata."""
        self.completed_send = False
        """Whether all of its bytes have been written to the socket."""


class InFlightRequests:
    """The queues of requests that are sent, or being sent, and not answered: per node at most `limit`, newest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queues: dict[int, deque[InFlightRequest]] = {}
        self._total = 0

    def add(self, in_flight: InFlightRequest) -> None:
        """Add a request that was given to the selector."""
        self._queues.setdefault(in_flight.request.node_id, deque()).appendleft(in_flight)
        self._total += 1

    def next_to_complete(self, node_id: int) -> InFlightRequest:
        """Return the oldest request, to which the next answer belongs. Raises LookupError: there is none."""
        return self._queues[node_id][-1]

    def complete_next(self, node_id: int) -> InFlightRequest:
        """Remove the oldest request. Raises LookupError: there is none."""
        in_flight = self._queues[node_id].pop()
        self._total -= 1
        return in_flight

    def last_sent(self, node_id: int) -> InFlightRequest:
        """Return the newest request, the only one that may not be written completely."""
        return self._queues[node_id][0]

    def complete_last_sent(self, node_id: int) -> InFlightRequest:
        """Remove the newest request, which expects no answer."""
        in_flight = self._queues[node_id].popleft()
        self._total -= 1
        return in_flight

    def can_send_more(self, node_id: int) -> bool:
        """Return whether the queue is empty, or its newest request is written and there is room."""
        queue = self._queues.get(node_id)
        # One unwritten request at a time: the selector's `completed_sends` name channels, not requests.
        return not queue or (queue[0].completed_send and len(queue) < self._limit)

    def clear(self, node_id: int) -> list[InFlightRequest]:
        """Remove all requests of a node, and return them, the oldest first."""
        queue = self._queues.pop(node_id, None)
        if queue is None:
            return []
        self._total -= len(queue)
        return list(reversed(queue))

    def count(self, node_id: int | None = None) -> int:
        """Return the number of requests, of one node or of all (None)."""
        return self._total if node_id is None else len(self._queues.get(node_id, ()))

    def timed_out_nodes(self, now_ms: int) -> list[int]:
        """Return the nodes with a request that has timed out. Timeouts differ, so the oldest need not be the first."""
        return [
            node_id
            for node_id, queue in self._queues.items()
            if any(now_ms - in_flight.sent_ms > in_flight.request.timeout_ms for in_flight in queue)
        ]


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


def decode_answer(api_key: int, version: int, number: int, frame: Frame) -> Message:
    """Decode the answer to a request of this correlation id.

    Raises DecodeError, also when the answer belongs to another request.
    """
    correlation_id, position = decode_response_header(frame, response_header_version(api_key, version))
    if correlation_id != number:
        raise DecodeError(f"Correlation id for response ({correlation_id}) does not match request's")
    if api_key == ApiKey.API_VERSIONS:
        # A node that does not know our version answers as version 0, whatever it was asked in (KIP-511).
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        if error_code == _UNSUPPORTED_VERSION:
            version = 0
    body, _ = response_class(api_key).decode(frame, version, position)
    return body
