"""The gate of the control plane: the controller's three requests pass, all others are answered with an error.

`ControlPlaneApis.handle` runs on the one request handler of the control plane, in the place of `Apis.handle`, so
nothing here needs a lock. Kafka separates its planes by listener only, and answers every request there. The difference
is deliberate: a client that was pointed at the controller's own listener would delay the controller's requests, which
that listener exists to prevent.

Kafka: KafkaServer.controlPlaneRequestProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, NoReturn

from barnabas.api.large_requests import Undecoded
from barnabas.api.registry import Registry
from barnabas.api.request import Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

CONTROLLER_APIS: Final = frozenset((ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA))


class ControlPlaneApis:
    """Runs the requests of the control plane; a refused one that is large closes its connection.

    handle: what runs a request that may pass (`Apis.handle`).
    """

    def __init__(self, registry: Registry, handle: Callable[[Request[Any]], None]) -> None:
        self._handle = handle
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
            # Its error answer names what it asked for, and so much is decoded for the controller only.
            self._warn(request)
            request.close_connection()
            request.release_buffer()
            return
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
