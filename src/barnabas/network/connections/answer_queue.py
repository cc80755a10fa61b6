"""The queue that a Processor shares with its connections: it brings answers back to the Processor's thread.

Made by each Processor, handed to every Connection it serves. Any thread may call `put` and `is_direct`; everything else
belongs to the Processor's thread. No lock: other threads only append to `responses` (a deque) and read `thread_id`,
which is written once. Kafka: RequestChannel.sendResponse, and responseQueue of SocketServer.Processor.

An answer takes one of two ways:

- **Direct**, when the answering thread is the Processor's own: a brief request that ran at once, or another
  connection's delayed operation that this request completed. The Connection takes the answer over without a queue.
- **Queued**, from every other thread: `put` appends the Response and wakes the Processor.

The direct way is open only while `responses` is empty. Otherwise a direct answer could overtake an earlier answer of
the same connection that a handler thread has queued.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

from barnabas.api.request import Request
from barnabas.runtime.logger_levels import TRACE

logger = logging.getLogger(__name__)


class ResponseKind(Enum):
    """The kinds of message that a handler may send about a request."""

    SEND = "Sending"
    NO_OP = "Not sending"
    CLOSE = "Closing connection instead of sending"
    START_THROTTLING = "Throttling has started for"
    END_THROTTLING = "Throttling has ended for"


class Answered(Protocol):
    """The part of a connection that the queue uses."""

    is_served: bool
    """Whether a request of it is running at once. Its answer is sent when the request returns."""

    def drop(self, request: Request[Any], frame: list[Any]) -> None:
        """Release an answer that can never be sent, and account for its request."""


C = TypeVar("C", bound=Answered)


class Response(Generic[C]):
    """One message to a connection about one of its requests."""

    __slots__ = ("connection", "frame", "kind", "request")

    def __init__(self, kind: ResponseKind, connection: C, request: Request[Any], frame: list[Any]) -> None:
        """`frame`: the pieces of the answer with its size prefix; empty unless `kind` is SEND."""
        self.kind = kind
        self.connection = connection
        self.request = request
        self.frame = frame

    @property
    def ends_request(self) -> bool:
        """Whether this message is the request's answer; the others are about throttling."""
        return self.kind not in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING)

    def drop(self) -> None:
        """Release the answer: its connection is gone."""
        if self.ends_request:
            self.connection.drop(self.request, self.frame)


class AnswerQueue(Generic[C]):
    """The answers queued by other threads, and the connections that were answered on the Processor's own thread."""

    __slots__ = ("_is_closed", "_wake", "answered", "responses", "thread_id", "tracing")

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` interrupts the Processor's poll; any thread may call it."""
        self._wake = wake
        self._is_closed = False
        self.responses: deque[Response[C]] = deque()
        """Answers of other threads: they append, the Processor takes from the left."""
        self.thread_id = -1
        """The Processor's thread; -1 before it runs."""
        self.answered: list[C] = []
        """The connections with answers that are sent at the end of the turn."""
        self.tracing = False
        """Whether responses are logged. Kept, because each request asks; see `follow_level`."""
        self.follow_level()

    # -- any thread

    def is_direct(self) -> bool:
        """Return whether the caller may hand an answer to its connection without a queue (see the module)."""
        return get_ident() == self.thread_id and not self.responses

    def put(self, response: Response[C]) -> None:
        """Hand a response to the Processor's thread. After `close` the response is dropped."""
        self.responses.append(response)
        self._wake()
        # The flag is read after the append: either `close` sees the response, or this thread sees the close.
        if self._is_closed:
            self._drop_all()

    def follow_level(self) -> None:
        """Read the logger's level again. Called by the SocketServer after each change of levels, on any thread."""
        self.tracing = logger.isEnabledFor(TRACE)

    def trace(self, kind: ResponseKind, request: Request[Any]) -> None:
        """Log one line about a response. Called only while `tracing` is set."""
        header = request.header
        logger.log(TRACE, "%s response: API key %d, client %s", kind.value, header.api_key, header.client_id)

    # -- the Processor's thread

    def note_answered(self, connection: C) -> None:
        """Remember that a direct answer was handed to `connection`, unless the Processor sends its answers anyway."""
        if not connection.is_served:
            self.answered.append(connection)

    def close(self) -> None:
        """Drop every response, now and from now on, and release the answers' files."""
        self._is_closed = True
        self._drop_all()

    def _drop_all(self) -> None:
        # Several threads may be here at once; a deque gives each response to one of them.
        with contextlib.suppress(IndexError):
            while True:
                self.responses.popleft().drop()
