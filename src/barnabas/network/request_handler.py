"""The threads that take requests from the RequestChannel and pass them to the api layer, and their pool.

Each thread owns the request it runs, and its counters, which other threads read; no lock. The pool is started, resized
and shut down by `broker/`; its `_lock` keeps these calls apart.

Kafka: KafkaRequestHandler, KafkaRequestHandlerPool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from barnabas.network.connections.channel_builders import DATA_PLANE
from barnabas.network.requests.request_channel import CallbackRequest, RequestChannel, ShutdownRequest
from barnabas.network.server_thread import FatalHandler
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.3


class RequestHandler:
    """One daemon thread `...-request-handler-<n>`."""

    def __init__(
        self,
        name: str,
        request_channel: RequestChannel,
        handle: Callable[[Any], None],
        clock: Clock,
        on_fatal: FatalHandler,
    ) -> None:
        self.name = name
        self._receive = request_channel.receive
        self._send_shutdown_request = request_channel.send_shutdown_request
        self._handle = handle
        self._now = clock.nanoseconds
        self._on_fatal = on_fatal
        self._stopped = False
        self.idle_ns = 0
        """Time spent waiting for requests, for RequestHandlerAvgIdlePercent."""
        self.handled = 0
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current request, within the poll time (shrinking the pool)."""
        self._stopped = True

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread to end. Returns False if it still runs, or is the calling thread."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return self._thread.ident is None
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def run(self) -> None:
        """Handle items until the order to stop."""
        try:
            while not self._stopped and self.run_once(POLL_SECONDS):
                pass
        except BaseException as error:
            logger.critical("%s stops after a fatal error", self.name, exc_info=True)
            self._on_fatal(error)

    def run_once(self, timeout_seconds: float) -> bool:
        """Handle one item, if one comes in time. Returns False when the item is the order to stop."""
        started_ns = self._now()
        item = self._receive(timeout_seconds)
        taken_ns = self._now()
        self.idle_ns += taken_ns - started_ns
        if item is None:
            return True
        if item.__class__ is ShutdownRequest:
            if self._stopped:
                self._send_shutdown_request()  # the order was for another handler: this one has its own
            return False
        self.handled += 1
        if item.__class__ is CallbackRequest:
            self._run_callback(item)
            return True
        item.dequeued_ns = taken_ns
        item.brief = False  # a handler thread may take its time
        try:
            self._handle(item)
        except Exception:
            # The api layer turns errors into answers, so an exception is a defect in it. The client must not wait for
            # an answer that never comes.
            logger.exception("%s: a request of %s was not handled", self.name, item.connection.connection_id)
            item.close_connection()
            item.release_buffer()
        # Otherwise the api layer has released the frame, or has kept it: the request may wait for its place in a line.
        return True

    def _run_callback(self, item: CallbackRequest) -> None:
        try:
            item.run()
        except Exception:
            logger.exception("%s: a continuation failed", self.name)


class RequestHandlerPool:
    """The handlers of one plane. The names of their threads begin with `prefix`."""

    def __init__(
        self,
        request_channel: RequestChannel,
        handle: Callable[[Any], None],
        clock: Clock,
        count: int,
        on_fatal: FatalHandler,
        *,
        prefix: str = DATA_PLANE,
    ) -> None:
        self._request_channel = request_channel
        self._handle = handle
        self._clock = clock
        self._initial_count = count
        self._on_fatal = on_fatal
        self._prefix = prefix
        self._handlers: list[RequestHandler] = []
        self._retired: list[RequestHandler] = []
        self._retired_idle_ns = 0
        self._is_shut_down = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the initial number of threads."""
        self.resize(self._initial_count)

    @property
    def size(self) -> int:
        """The number of handlers."""
        return len(self._handlers)

    @property
    def idle_ns(self) -> int:
        """The time that all handlers have waited.

        Divided by the pool's size and the time passed, this is the idle share.
        """
        with self._lock:
            return self._retired_idle_ns + sum(handler.idle_ns for handler in self._handlers)

    def resize(self, count: int) -> None:
        """Set the number of handlers. Surplus handlers end, the last ones first, after their current request.

        Raises ValueError when `count` is less than one.
        """
        if count < 1:
            raise ValueError(f"A pool needs at least one handler, not {count}")
        with self._lock:
            if self._is_shut_down:
                return  # settings may change until the very end
            before = len(self._handlers)
            for index in range(before, count):
                name = f"{self._prefix}-kafka-request-handler-{index}"
                handler = RequestHandler(name, self._request_channel, self._handle, self._clock, self._on_fatal)
                self._handlers.append(handler)
                handler.start()
            while len(self._handlers) > count:
                # No join: the handler may be in a long request, and settings change on a thread that must not wait.
                handler = self._handlers.pop()
                handler.stop()
                self._retired_idle_ns += handler.idle_ns
                self._retired.append(handler)
            self._retired = [handler for handler in self._retired if not handler.join(0)]
        if before and before != count:
            logger.info("Resized request handler thread pool from %d to %d", before, count)

    def shutdown(self) -> None:
        """End all handlers and wait for them.

        The order goes through the queue, so queued requests are handled first.
        """
        with self._lock:
            self._is_shut_down = True
            handlers, self._handlers = self._handlers, []
            # The joins below run without the lock: `resize` on another thread must not wait for a long last request.
            retired, self._retired = self._retired, []
        for _ in handlers:
            self._request_channel.send_shutdown_request()
        for handler in handlers + retired:
            handler.join()
