"""The gate at which requests wait, unanswered, until the broker is ready; the controller's requests pass.

The controller tells this broker over the network which partitions it leads, so the listener has to be served before
there is anything to serve. Until the gate opens, the request parser reads a table in which every API except the
controller's three leads here. `hold` is called by whichever thread runs a request, `open` once by the main thread,
which gives the parser the real table; the gate is then out of every request's way.

`_lock` guards the list of waiting requests; a connection has at most one request in it, because it is muted meanwhile.
Waiting requests hold connections (`max.connections`) and memory (`queued.max.request.bytes`) that the controller may
need before the gate can open: when that takes long, the main thread closes their connections by `disconnect_waiting`.

Kafka has no such gate: it starts to read when the controller has been started, and answers the first requests from
empty metadata.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.api.brief import BRIEF
from barnabas.api.control_plane import CONTROLLER_APIS
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser


class StartupGate:
    """Closed from the start. handle: runs a request that has waited (Apis.handle_moved)."""

    def __init__(self, parser: RequestParser, registry: Registry, handle: Callable[[Request[Any]], None]) -> None:
        self._parser = parser
        self._handlers = registry.handlers
        self._handle = handle
        self._lock = threading.Lock()
        self._is_open = False
        self._waiting: list[Request[Any]] = []
        parser.use_handlers({key: self._holding(handler) for key, handler in registry.handlers.items()})

    def hold(self, request: Request[Any]) -> None:
        """Keep a request, and its frame, until the gate opens."""
        held = request.handed_to(self._handlers[request.handler.api_key])
        with self._lock:
            if not self._is_open:
                self._waiting.append(held)
                return
        # Outside the lock, like all that runs other code.
        self._resume(held)  # it was on its way here when the gate opened

    def open(self) -> None:
        """Let all requests in. Those that waited are handled on a request handler's thread."""
        # First the table, then the list: a request parsed by the old table may come to `hold` even after this.
        self._parser.use_handlers(self._handlers)
        with self._lock:
            self._is_open = True
            waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._resume(request)

    def disconnect_waiting(self) -> int:
        """Close the connections of the waiting requests, whose memory the controller may need; return how many."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for request in waiting:
            request.close_connection()
            request.release_buffer()
        return len(waiting)

    def _resume(self, request: Request[Any]) -> None:
        request.channel.resume(partial(self._handle, request))

    def _holding(self, handler: Handler) -> Handler:
        """Return a line that leads to `hold`. It is brief: holding a request takes no time."""
        if handler.api_key in CONTROLLER_APIS:
            return handler
        return handler.redirected(self.hold, BRIEF)
