"""The gates that let only the controller's three requests pass: that of the control plane, and that of a start.

At the control plane all other requests are answered with an error, for as long as the broker runs. At the start they
wait, unanswered, until the broker is ready for them.

Kafka: KafkaServer.controlPlaneRequestProcessor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from barnabas.api.brief import BRIEF, BRIEF_LIMIT_BYTES, Brief
from barnabas.api.large_requests import LargeRequests, Undecoded
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

CONTROLLER_APIS: Final = frozenset((ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA))


class ControlPlaneApis:
    """Runs the requests of the control plane; a refused one that is large closes its connection.

    handle: what runs a request that may pass (`Apis.handle`). large: decodes what is left undecoded.
    `ControlPlaneApis.handle` runs in the place of `Apis.handle`, on the one request handler of the control plane, so
    nothing here needs a lock.

    Kafka separates its planes by listener only, and answers every request there. The difference is deliberate: a client
    that was pointed at the controller's own listener would delay the controller's requests, which that listener exists
    to prevent.
    """

    def __init__(self, registry: Registry, handle: Callable[[Request[Any]], None], large: LargeRequests) -> None:
        self._handle = handle
        self._large = large
        self._warned_of = ""  # the connection refused last: one log line each is enough
        self._refused = {
            handler.api_key: handler.redirected(self._refuse)
            for handler in registry
            if handler.api_key not in CONTROLLER_APIS
        }

    def handle(self, request: Request[Any]) -> None:
        """Handle a request of the controller, refuse any other."""
        refused = self._refused.get(request.handler.api_key)
        if refused is not None and isinstance(request.body, Undecoded):
            # The error answer names what was asked for. So much is decoded for the controller only, unless it is short:
            # the first requests of a late family come undecoded, too.
            if request.request_size > BRIEF_LIMIT_BYTES:
                self._warn(request)
                request.close_connection()
                request.release_buffer()
                return
            refused = self._large.leading_here(refused)
        # By way of the ordinary pipeline, which makes the API's own error answer of the ApiError and frees the frame.
        self._handle(request if refused is None else request.handed_to(refused))

    def _warn(self, request: Request[Any]) -> None:
        connection = request.connection
        if self._warned_of != connection.connection_id:
            self._warned_of = connection.connection_id
            logger.warning(
                "Refused %s of client %r on connection %s: listener %s takes the controller's requests only",
                request.handler.api_key.name,
                request.header.client_id,
                connection.connection_id,
                connection.listener_name,
            )

    def _refuse(self, request: Request[Any]) -> NoReturn:
        """Refuse a request that is not the controller's. Raises ApiError: INVALID_REQUEST, always."""
        self._warn(request)
        name = request.handler.api_key.name
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Listener {request.connection.listener_name} is the control plane, which takes the controller's requests "
            f"only (LeaderAndIsr, StopReplica, UpdateMetadata), not {name}; use another listener of this broker",
        )


class StartupGate:
    """The gate of a start, closed at first. handle: runs a request that has waited (`Apis.handle_moved`).

    The controller tells this broker over the network which partitions it leads, so the listener has to be served before
    there is anything to serve. Until the gate opens, the request parser reads a table in which every API except the
    controller's three leads here. `hold` is called by whichever thread runs a request, `open` once by the main thread,
    which gives the parser the real table; the gate is then out of every request's way.

    `_lock` guards the list of waiting requests; a connection has at most one request in it, because it is muted
    meanwhile. Waiting requests hold connections (`max.connections`) and memory (`queued.max.request.bytes`) that the
    controller may need before the gate can open: when that takes long, the main thread closes their connections by
    `disconnect_waiting`.

    Kafka has no such gate: it starts to read when the controller has been started, and answers the first requests from
    empty metadata.
    """

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
        # No frame is decoded on a network thread that its own line leaves undecoded.
        return handler.redirected(self.hold, Brief(BRIEF.since, min(BRIEF.limit_bytes, handler.brief_bytes)))
