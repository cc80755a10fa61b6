"""A thread that takes requests from the RequestChannel and passes them to the api layer.

Each thread owns the request it runs, and its counters, which other threads read; no lock. Kafka: KafkaRequestHandler.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from barnabas.network.request_channel import CallbackRequest, RequestChannel, ShutdownRequest
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
        """Handle items until told to stop."""
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
                self._send_shutdown_request()  # the order was for another handler: this one has been told already
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
