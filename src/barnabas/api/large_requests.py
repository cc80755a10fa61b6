"""Requests whose frames are decoded on a request handler's thread, because they are long or have many elements.

`RequestParser` makes such a request on a network thread from the header alone; its body is `Undecoded`, and its
handler a line of the table that leads to `LargeRequests.handle`, which decodes the frame and calls the real handler.
`api.brief` has the bounds. Kafka decodes every request on its network thread.

A hostile client sends 20 MB of names with one letter on each of six connections:

    network threads   read the headers: six requests in the queue
    handler 1         takes the first, whose objects would take more than ten times the bytes of the frame: decoding
                      ends before, with a log line, and the connection is closed
    handler 2 to 6    take the others, find the place of huge requests taken, put them into its line, and are free again
    handler 1         passes the place on to the oldest in the line, unless its connection is closed by then

There is a line for heavy requests, one for huge ones, and one of `api.handlers.produce` for produces whose records are
large: 7 KB may hold 256 MB, which takes seconds. A line holds one request of each open connection at most, and a
hundred of clients that have left.

Decoders are interpreted, so another thread gets the GIL after each switch interval. The lock of a line guards its place
and its requests; nothing is called under it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from barnabas.api.brief import BRIEF_LIMIT_BYTES, HEAVY_BYTES, HUGE_BYTES, NeedsHandlerThread
from barnabas.api.request import Handler, Request
from barnabas.api.request_log import RequestLog
from barnabas.protocol.decoder_source import DecoderBound
from barnabas.protocol.errors import DecodeError, ManyElements
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.produce import ProduceRequest

logger = logging.getLogger(__name__)


class Undecoded(Message):
    """The body of a request before it is decoded: the frame, and where the body begins in it."""

    __slots__ = ("buffer", "offset")
    declarations = __slots__

    def __init__(self, buffer: Any, offset: int) -> None:
        self.buffer = buffer
        self.offset = offset


class Line:
    """One place in the process for requests of a kind, and the requests that wait for it, the oldest first.

    Such a request waits here, and not on a handler's thread: eight that wait there would leave none for the others. Its
    handler raises NeedsPlace, before it has begun, as long as `holder` is another request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self.holder: Request[Any] | None = None
        """The request that has the place."""

    def takes_place(self, request: Request[Any]) -> bool:
        """Take the place for a request, if it is free. The caller passes it on afterwards."""
        with self._lock:
            if self.holder is not None:
                return False
            self.holder = request
            return True

    def queue(self, request: Request[Any], handle: Callable[[Request[Any]], None]) -> None:
        """Have a request handler call `handle(request)` when the request has the place."""
        with self._lock:
            # A client may send 20 MB and leave, again and again: the line must not keep all that. Produces that want no
            # answer are kept while they are few: their clients may leave when they have sent all.
            is_long = len(self._waiting) >= _MOST_WAITING
            given_up = [each.request for each in self._waiting if _is_given_up(each.request, is_long=is_long)]
            self._waiting = deque(each for each in self._waiting if each.request not in given_up)
            is_free = self.holder is None
            if is_free:
                self.holder = request
            else:
                self._waiting.append(_Waiting(request, handle))
        _give_up(given_up)
        if is_free:
            self._resume(request, handle)

    def _resume(self, request: Request[Any], handle: Callable[[Request[Any]], None]) -> None:
        request.channel.resume(partial(self._run, request, handle))

    def _run(self, request: Request[Any], handle: Callable[[Request[Any]], None]) -> None:
        try:
            handle(request)
        finally:
            self.pass_place_on()

    def pass_place_on(self) -> None:
        """Give the place to the oldest request, which no newer one overtakes."""
        given_up: list[Request[Any]] = []
        with self._lock:
            self.holder = handle = None
            while self._waiting and self.holder is None:
                oldest, handle = self._waiting.popleft()
                if _is_given_up(oldest, is_long=False):
                    given_up.append(oldest)
                else:
                    self.holder = oldest
            following = self.holder
        _give_up(given_up)
        if following is not None and handle is not None:
            self._resume(following, handle)


_MOST_WAITING = 100
"""The length of a line from which on requests of clients that have left are dropped, whatever they want."""


class _Waiting(NamedTuple):
    request: Request[Any]
    handle: Callable[[Request[Any]], None]


def _is_given_up(request: Request[Any], *, is_long: bool) -> bool:
    """Return whether the client has left before its request had the place, and is to be forgotten."""
    wants_no_answer = isinstance(request.body, ProduceRequest) and request.body.acks == 0
    return request.channel.is_abandoned and (is_long or not wants_no_answer)


def _give_up(requests: Iterable[Request[Any]]) -> None:
    """End requests whose connections are closed."""
    for request in requests:
        if isinstance(request.body, Undecoded):
            request.body = request_class(request.handler.api_key)()
        request.close_connection()
        request.release_buffer()


class NeedsPlace(NeedsHandlerThread):
    """Raised by a handler, before it has begun, for a request that has to wait for its place."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def queue(self, request: Request[Any], handle: Callable[[Request[Any]], None]) -> None:
        """Put the request into the line."""
        self._line.queue(request, handle)


class LargeRequests:
    """The decoding of large requests, and the places of the heavy ones among them."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._heavy, self._huge = Line(), Line()
        # Filled by single assignments, from any thread.
        self._redirected: dict[Handler, Handler] = {}

    def leading_here(self, handler: Handler) -> Handler:
        """Return the line of the table for undecoded requests of `handler`: one each, made when first asked for."""
        found = self._redirected.get(handler)
        if found is None:
            found = self._redirected[handler] = handler.redirected(partial(self.handle, handler))
        return found

    def handle(self, handler: Handler, request: Request[Any]) -> None:
        """Decode a request and have `handler` handle it. Raises NeedsPlace, and what `handler` raises."""
        if request.request_size <= HEAVY_BYTES or self._holds_records(handler, request):
            self._decode_and_handle(handler, request)
            return
        line = self._heavy if request.request_size <= HUGE_BYTES else self._huge
        if request is line.holder:
            self._decode_and_handle(handler, request)
        elif line.takes_place(request):
            try:
                self._decode_and_handle(handler, request)
            finally:
                line.pass_place_on()
        else:
            raise NeedsPlace(line)

    def _decode_and_handle(self, handler: Handler, request: Request[Any]) -> None:
        if self._decode(handler, request):
            handler.handle(request)

    @staticmethod
    def _holds_records(handler: Handler, request: Request[Any]) -> bool:
        """Return whether a long request has few elements: its bytes are records, and producers wait for no place."""
        if handler.brief_bytes <= BRIEF_LIMIT_BYTES:
            return False
        undecoded: Undecoded = request.body
        try:
            handler.decoders[request.api_version](undecoded.buffer, undecoded.offset)
        except ManyElements:
            return False
        except DecodeError:
            pass  # found again, and answered, where the request is decoded for its handler
        return True

    def _decode(self, handler: Handler, request: Request[Any]) -> bool:
        """Decode the body. Returns False when the bytes are no request: the connection is closed."""
        undecoded: Undecoded = request.body
        request.handler = handler
        message = request_class(handler.api_key)
        try:
            decode = message.decoders.bounded(DecoderBound.MEMORY)[request.api_version]
            request.body, _ = decode(undecoded.buffer, undecoded.offset)
        except DecodeError as error:
            connection = request.connection
            logger.warning(
                "Closing connection %s (listener %s, principal %s): invalid request: unreadable body of %s v%d "
                "from client %r: %s",
                connection.connection_id,
                connection.listener_name,
                connection.principal,
                handler.api_key.name,
                request.api_version,
                request.header.client_id,
                error,
            )
            request.body = message()
            request.close_connection()
            return False
        if self._log.enabled:
            self._log.received(request)
        return True
