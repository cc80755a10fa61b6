"""The two places at which a fault meets a request: before its handler, and after it, when the answer is handed over.

Made by FaultInjector for a request that a fault hits; whichever thread runs the request calls it, or the thread that
ends a delay. One owner at a time, no lock.

Before: `BeforeHandling` has the request itself, which no handler has seen. After: `AnswerTap` stands in the place of
the request's ResponseChannel. The handler and the purgatory work as ever, and the first answer that they hand over
becomes an `AfterHandling`:

    handler -> Request.respond -> AnswerTap.send -> AfterHandling -> proceed -> Connection.send

By then the request counts as answered (`Request` drops later answers), so AfterHandling speaks to the connection's own
ResponseChannel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from barnabas.api.request import Request, ResponseChannel
from barnabas.protocol.errors import ApiError
from barnabas.protocol.headers import response_frame
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords

logger = logging.getLogger(__name__)


class Interception(Protocol):
    """A request that a fault has hit. Exactly one of `proceed`, `fail` and `close` is called, or none at all."""

    def keep(self) -> None:
        """Keep what `proceed` will need, because it is called later and on another thread."""

    def proceed(self) -> None:
        """Let the request go its way after all."""

    def fail(self, error: ApiError) -> None:
        """Answer with `error`, or close the connection of a client that waits for no answer."""

    def close(self) -> None:
        """Close the connection in place of the answer."""


class BeforeHandling:
    """A request before its handler. handle_moved: runs a request that has waited (Apis.handle_moved)."""

    def __init__(self, request: Request[Any], handle_moved: Callable[[Request[Any]], None]) -> None:
        self._request = request
        self._handle_moved = handle_moved

    def keep(self) -> None:
        """Take the frame along: `Apis.handle` gives back that of a request that was not handed on."""
        self._request = self._request.handed_to(self._request.handler)

    def proceed(self) -> None:
        """Handle the request, which was kept, on a request handler's thread."""
        self._request.channel.resume(partial(self._handle_moved, self._request))

    def fail(self, error: ApiError) -> None:
        """Answer with `error`."""
        self._request.fail(error)

    def close(self) -> None:
        """Close the connection; the request is never handled."""
        self._request.close_connection()
        self._request.release_buffer()


class AfterHandling:
    """An answer that was about to be handed over. channel: the connection's own."""

    def __init__(
        self, request: Request[Any], channel: ResponseChannel, frame: list[Any], hand_over: Callable[[], None]
    ) -> None:
        """`frame`: the pieces of the answer, empty if it has none; `hand_over` hands it to the channel."""
        self._request = request
        self._channel = channel
        self._frame = frame
        self._hand_over = hand_over

    def keep(self) -> None:
        """Do nothing: an answer owns all its pieces."""

    def proceed(self) -> None:
        """Hand the answer over."""
        self._hand_over()

    def fail(self, error: ApiError) -> None:
        """Answer with `error` in place of the answer."""
        self._release_frame()
        request = self._request
        try:
            answer = request.handler.error_answer(request, error)
            if answer is None:
                self._channel.close(request)
                return
            frame, size = response_frame(request.header, answer)
        except Exception:
            logger.exception("no error answer could be made for %s; closing its connection", request.handler.api_key)
            self._channel.close(request)
            return
        request.response, request.response_size = answer, size
        self._channel.send(request, frame)

    def close(self) -> None:
        """Close the connection; the answer is lost."""
        self._release_frame()
        self._channel.close(self._request)

    def _release_frame(self) -> None:
        for piece in self._frame:
            if isinstance(piece, FileRecords | LazyDownConversionRecords):
                piece.release()


class AnswerTap(ResponseChannel):
    """The ResponseChannel of a request whose answer a fault hits.

    on_answer: gets the answer in place of `channel`, the connection's own.
    """

    def __init__(self, channel: ResponseChannel, on_answer: Callable[[AfterHandling], None]) -> None:
        self._channel = channel
        self._on_answer = on_answer

    def send(self, request: Request[Any], frame: list[Any]) -> None:
        """Have the fault decide what becomes of the answer."""
        hand_over = partial(self._channel.send, request, frame)
        self._on_answer(AfterHandling(request, self._channel, frame, hand_over))

    def no_op(self, request: Request[Any]) -> None:
        """Have the fault decide at the end of a request without an answer (acks=0)."""
        self._on_answer(AfterHandling(request, self._channel, [], partial(self._channel.no_op, request)))

    def close(self, request: Request[Any]) -> None:
        """Have the fault decide where the handler closes the connection."""
        self._on_answer(AfterHandling(request, self._channel, [], partial(self._channel.close, request)))

    def start_throttling(self, request: Request[Any]) -> None:
        """Keep the connection muted, as the channel does."""
        self._channel.start_throttling(request)

    def end_throttling(self, request: Request[Any]) -> None:
        """End the throttle time, as the channel does."""
        self._channel.end_throttling(request)

    @property
    def is_abandoned(self) -> bool:
        """Whether the connection is closed."""
        return self._channel.is_abandoned

    def resume(self, continuation: Callable[[], None]) -> None:
        """Run `continuation` on a request handler thread, as the channel does."""
        self._channel.resume(continuation)

    def when_next_arrives(self, finish: Callable[[], object]) -> None:
        """Have the request answered when the next one arrives, as the channel does."""
        self._channel.when_next_arrives(finish)
