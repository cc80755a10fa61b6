"""The bounded queue of requests between network threads and handler threads, and their continuations, which go first.

Any number of Processors add requests, any number of handlers take them. Two deques hold the items. Handlers wait on a
SimpleQueue of tokens, one an item, so that the wait is one C call. A lock guards the bound. Kafka: RequestChannel,
which blocks a Processor when the queue is full. Here `try_send` returns False: the Processor goes on sending answers,
and the handler that makes room wakes it. A blocked network thread would hold back the finished answers of other
clients.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from barnabas.api.apis import Apis
from barnabas.api.request_parser import RequestParser
from barnabas.network.requests.request_metrics import RequestMetrics

logger = logging.getLogger(__name__)


class ShutdownRequest:
    """The order to end, for the handler that takes it."""

    __slots__ = ()


class CallbackRequest:
    """A continuation to run on a handler thread (Kafka: CallbackRequest)."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run


class RegisteredProcessor(Protocol):
    """The part of a Processor that the channel's gauges read."""

    processor_id: int

    @property
    def response_queue_size(self) -> int:
        """The number of responses queued by other threads."""


class RequestChannel:
    """The queue of one plane; `metric_prefix` tells planes apart ("" is the data plane)."""

    def __init__(self, capacity: int = 500, metric_prefix: str = "") -> None:
        self.capacity = capacity
        self.metric_prefix = metric_prefix
        self.waiting_requests: deque[Any] = deque()
        """The queued requests. The inline path tests before every request whether this is empty."""
        self._callbacks: deque[CallbackRequest] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.Lock()
        self._refused: list[Callable[[], None]] = []  # how to wake the Processors whose requests found no room
        self._processors: dict[int, RegisteredProcessor] = {}

    def try_send(self, request: Any, wake: Callable[[], None]) -> bool:
        """Queue `request`. Returns False if the queue is full; `wake` is then called once, when there is room."""
        # Only Processors add requests under the lock; handlers take them out without it. So there may be more room than
        # this thread sees, never less.
        with self._lock:
            if len(self.waiting_requests) >= self.capacity:
                if wake not in self._refused:
                    self._refused.append(wake)
                # A second test: a handler that took a request before `wake` was listed will not call `wake`.
                if len(self.waiting_requests) >= self.capacity:
                    return False
                self._refused.remove(wake)
            self.waiting_requests.append(request)
        self._tokens.put(None)  # after the item: the handler that gets the token must find it
        return True

    def send_callback(self, run: Callable[[], None]) -> None:
        """Run a continuation on a handler, before any queued request.

        Not bounded: its request passed the bound before.
        """
        self._callbacks.append(CallbackRequest(run))
        self._tokens.put(None)

    def send_shutdown_request(self) -> None:
        """End one handler, after the requests that are queued already."""
        self.waiting_requests.append(ShutdownRequest())
        self._tokens.put(None)

    def receive(self, timeout_seconds: float) -> Any | None:
        """Take the next item: a CallbackRequest, a request or a ShutdownRequest; None if none came in time."""
        try:
            self._tokens.get(timeout=timeout_seconds)
        except Empty:
            return None
        # Each token stands for one item in one of the deques, so a handler with a token finds an item in one of them.
        try:
            return self._callbacks.popleft()
        except IndexError:
            pass
        item = self.waiting_requests.popleft()
        if self._refused:
            self._wake_refused()
        return item

    def clear(self) -> list[Any]:
        """Take out all items, so that the caller can release their buffers.

        Called at the end of a stop, after all handlers.
        """
        items = []
        while (item := self.receive(0)) is not None:
            items.append(item)
        return items

    @property
    def request_queue_size(self) -> int:
        """The number of requests that wait for a handler: Kafka's gauge RequestQueueSize."""
        return len(self.waiting_requests) + len(self._callbacks)

    @property
    def response_queue_sizes(self) -> dict[int, int]:
        """Answers that wait for their Processor, by its id: Kafka's gauge ResponseQueueSize."""
        with self._lock:
            return {number: processor.response_queue_size for number, processor in self._processors.items()}

    def add_processor(self, processor: RegisteredProcessor) -> None:
        """Register a Processor. If its id is in use, log a warning and keep the Processor that has it."""
        with self._lock:
            if self._processors.setdefault(processor.processor_id, processor) is not processor:
                logger.warning("Unexpected processor with processorId %d", processor.processor_id)

    def remove_processor(self, processor_id: int) -> None:
        """Forget a Processor and its gauge."""
        with self._lock:
            self._processors.pop(processor_id, None)

    def _wake_refused(self) -> None:
        with self._lock:
            refused, self._refused = self._refused, []
        # After the lock is released: a woken Processor takes it in `try_send`.
        for wake in refused:
            wake()


class RequestHandling(NamedTuple):
    """The parts of the broker that meet each request: one parses it, one handles it, one counts it at its end."""

    parser: RequestParser
    apis: Apis
    """Answers a request, now or later. Called on a handler thread, or for a brief request on its Processor's thread."""
    metrics: RequestMetrics
    """Given each request whose answer has left, on the Processor's thread; all its time stamps are set."""


class RequestPath:
    """The queue and parts of one plane's requests, and whether brief requests may run at once.

    The SocketServer makes one for each plane; all Processors of the plane share it. Immutable, so no lock.
    """

    __slots__ = ("apis", "channel", "may_run_at_once", "metrics", "parser")

    def __init__(self, channel: RequestChannel, handling: RequestHandling, *, may_run_at_once: bool = True) -> None:
        self.channel = channel
        self.parser = handling.parser
        self.apis = handling.apis
        self.metrics = handling.metrics
        self.may_run_at_once = may_run_at_once
