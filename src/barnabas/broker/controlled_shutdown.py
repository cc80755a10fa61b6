"""The request to the controller to move this broker's leaderships to other brokers, before the broker stops.

Run by BrokerServer on the main thread as the first step of a stop, while the network still serves: on a single node the
controller is this broker's own. A broker that is alone has no other broker to lead its partitions: it asks once, and
waits at most a second for the answer.

Kafka: KafkaServer.controlledShutdown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.config.config_error import ConfigError
from barnabas.config.setting import Settings, setting
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import ControlledShutdownRequest, ControlledShutdownResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.peer_connection import ConnectionLost

logger = logging.getLogger(__name__)

PATIENCE_ALONE_MS: Final = 1_000


class ShutdownTerms(Settings):
    """Whether a broker hands over its leaderships before it stops, how often it tries, how long an attempt lasts."""

    attempts: int = setting("controlled.shutdown.max.retries")
    backoff_ms: int = setting("controlled.shutdown.retry.backoff.ms")
    connect_timeout_ms: int = setting("controller.socket.timeout.ms")
    request_timeout_ms: int = setting("request.timeout.ms")
    is_enabled: bool = setting("controlled.shutdown.enable")

    def single_attempt(self) -> ShutdownTerms:
        """Return the terms of one quick attempt."""
        return replace(
            self,
            attempts=min(self.attempts, 1),
            connect_timeout_ms=min(self.connect_timeout_ms, PATIENCE_ALONE_MS),
            request_timeout_ms=min(self.request_timeout_ms, PATIENCE_ALONE_MS),
        )


class ControlledShutdownClient:
    """The controlled shutdown of one broker.

    listener_name: the inter-broker listener, on which the controller takes the request. epoch: the broker epoch of this
    broker's registration.
    """

    def __init__(
        self,
        connections: BrokerConnections,
        metadata: MetadataCache,
        listener_name: str,
        broker_id: int,
        epoch: Callable[[], int],
        terms: ShutdownTerms,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._listener_name = listener_name
        self._broker_id = broker_id
        self._epoch = epoch
        self._terms = terms
        self._sleep = sleep

    def run(self) -> bool:
        """Ask until no leadership is left, as often as the settings say. Return whether that was achieved."""
        logger.info("Starting controlled shutdown")
        terms = self._terms if len(self._metadata.image.brokers) > 1 else self._terms.single_attempt()
        for attempt in range(terms.attempts):
            if attempt:
                self._sleep(terms.backoff_ms / 1000)
                logger.info("Retrying controlled shutdown (%d retries remaining)", terms.attempts - attempt)
            if self._ask(terms):
                return True
        logger.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")
        return False

    def _ask(self, terms: ShutdownTerms) -> bool:
        try:
            # Looked up for each attempt: the controller may have moved, or may be stopping as well.
            node = self._controller()
            response = None if node is None else self._exchange(node, terms)
        except (ConnectionLost, OSError, ConfigError) as error:
            logger.warning(
                "Error during controlled shutdown, possibly because leader movement took longer than the configured "
                "controller.socket.timeout.ms and/or request.timeout.ms: %s",
                error,
            )
            return False
        if response is None:
            return False
        if response.error_code != ErrorCode.NONE:
            name = ErrorCode(response.error_code).name
            logger.info("Controlled shutdown request returned with error %s", name)
            return False
        if response.remaining_partitions:
            left = len(response.remaining_partitions)
            logger.info("Controlled shutdown request returned with %d partitions remaining to move", left)
            return False
        logger.info("Controlled shutdown request returned successfully")
        return True

    def _controller(self) -> Node | None:
        image = self._metadata.image
        broker = image.brokers.get(image.controller_id)
        if broker is None:
            logger.info("No controller present in the metadata cache, or none that is registered")
            return None
        return self._connections.node(broker.id, broker.endpoints, self._listener_name)

    def _exchange(self, node: Node, terms: ShutdownTerms) -> ControlledShutdownResponse:
        """Send the request, return its answer. Raises ConnectionLost, OSError or ConfigError."""
        config = self._connections.client_config(self._listener_name)
        connection = self._connections.connection(node, replace(config, request_timeout_ms=terms.request_timeout_ms))
        try:
            connection.await_ready(terms.connect_timeout_ms)
            # The epoch in force now: the controller rejects one of an earlier registration (KIP-380).
            message = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=self._epoch())
            response = connection.exchange(message)
        finally:
            connection.close()
        if not isinstance(response, ControlledShutdownResponse):
            raise ConnectionLost(f"{node} sent an unexpected answer, {type(response).__name__}")
        return response
