"""The threads that handle requests: `num.io.threads` of them, a number that may change.

Started, resized and shut down by `broker/`; a lock keeps these calls apart. Kafka: KafkaRequestHandlerPool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from barnabas.network.request_channel import RequestChannel
from barnabas.network.request_handler import RequestHandler
from barnabas.network.server_thread import FatalHandler
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)


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
        prefix: str = "data-plane",
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
