"""A ResponseChannel that remembers what was sent, for tests of the request layer without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.api.request import ConnectionContext, Request, ResponseChannel
from barnabas.protocol.headers import decode_response_header, response_header_version
from barnabas.protocol.message_index import response_class


class RecordingChannel(ResponseChannel):
    """Keeps frames and events in order; `resume` runs its continuation at once."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.requests: list[Request[Any]] = []
        self.events: list[str] = []
        self._is_abandoned = False

    @property
    def is_abandoned(self) -> bool:
        return self._is_abandoned

    @is_abandoned.setter
    def is_abandoned(self, abandoned: bool) -> None:
        self._is_abandoned = abandoned

    def send(self, request: Request[Any], frame: list[Any]) -> None:
        self.events.append("send")
        self.requests.append(request)
        self.frames.append(b"".join(piece.read() if hasattr(piece, "read") else bytes(piece) for piece in frame))

    def no_op(self, request: Request[Any]) -> None:
        self.events.append("no_op")

    def close(self, request: Request[Any]) -> None:
        self.events.append("close")

    def start_throttling(self, request: Request[Any]) -> None:
        self.events.append("start_throttling")

    def end_throttling(self, request: Request[Any]) -> None:
        self.events.append("end_throttling")

    def resume(self, continuation: Callable[[], None]) -> None:
        continuation()

    def when_next_arrives(self, finish: Callable[[], object]) -> None:
        self.events.append("when_next_arrives")

    def answer(self, index: int = -1) -> Any:
        """The decoded body of one of the answers."""
        request, frame = self.requests[index], self.frames[index]
        version = request.header.api_version
        header_version = response_header_version(request.header.api_key, version)
        correlation_id, offset = decode_response_header(frame[4:], header_version)
        assert correlation_id == request.header.correlation_id
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        message, end = response_class(request.handler.api_key).decode(frame[4:], version, offset)
        assert end == len(frame) - 4
        return message


def connection() -> ConnectionContext:
    """A plaintext connection from this machine, by the only listener."""
    return ConnectionContext(
        "127.0.0.1:9092-127.0.0.1:50000-0", "127.0.0.1", "PLAINTEXT", "PLAINTEXT", from_privileged_listener=True
    )
