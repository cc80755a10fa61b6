"""Keeps a ClusterMetadata fresh, through the connections of the NetworkClient that uses it.

Called on the client's thread only. Kafka: NetworkClient.DefaultMetadataUpdater.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.clients.authentication_errors import authentication_error
from barnabas.clients.metadata.cluster_metadata import REBOOTSTRAP, ClusterMetadata
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import FOREVER_MS, MetadataClient
from barnabas.transport.channel.authenticator import AuthenticationFailed

logger = logging.getLogger(__name__)


class ClusterMetadataUpdater:
    """A MetadataUpdater, by the recovery settings of a client's view of the cluster.

    The view begins again with the user's addresses (`metadata.recovery.strategy`, KIP-899, KIP-1102): when no known
    node can be connected to, when no answer came for `metadata.recovery.rebootstrap.trigger.ms`, and when a broker says
    REBOOTSTRAP_REQUIRED. In the last two cases the connections to all known nodes are closed first.
    """

    def __init__(
        self,
        metadata: ClusterMetadata,
        *,
        request_timeout_ms: int = 30_000,
        reconnect_backoff_ms: int = 50,
    ) -> None:
        self._metadata = metadata
        self._request_timeout_ms = request_timeout_ms
        self._reconnect_backoff_ms = reconnect_backoff_ms
        self._recovers = metadata.config.recovery_strategy == REBOOTSTRAP
        self._trigger_ms = metadata.config.rebootstrap_trigger_ms
        self._attempted_since_ms: int | None = None
        """When the first attempt began of those that have brought no metadata yet; None after an answer."""
        self._is_rebootstrap_required = False
        self._in_progress: tuple[int, bool] | None = None
        """The version of the request in progress, and whether that request is partial."""

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are known now."""
        return tuple(self._metadata.cluster.nodes.values())

    def is_update_due(self, now_ms: int) -> bool:
        """Return whether an update is due and no request is in progress. An update goes before other requests."""
        return self._in_progress is None and self._metadata.time_to_next_update_ms(now_ms) == 0

    def maybe_update(self, client: MetadataClient, now_ms: int) -> int:
        """Begin an update if one is due and possible. Returns the milliseconds until the next call is useful."""
        wait_ms = max(
            self._metadata.time_to_next_update_ms(now_ms),
            self._request_timeout_ms if self._in_progress is not None else 0,
        )
        if wait_ms > 0:
            return wait_ms
        if self._attempted_since_ms is None:
            self._attempted_since_ms = now_ms
        # Any node will do, the least loaded one best. When none is left that could be connected to, the known addresses
        # may all be outdated (a cluster that moved): begin again with those of the user.
        node = client.least_loaded_node(now_ms)
        if node is None and self._recovers and not client.has_ready_nodes(now_ms):
            self.rebootstrap(now_ms)
            node = client.least_loaded_node(now_ms)
        if node is None:
            logger.debug("Give up sending metadata request since no node is available")
            return self._reconnect_backoff_ms
        return self._update_from(client, node, now_ms)

    def _update_from(self, client: MetadataClient, node: Node, now_ms: int) -> int:
        if client.can_send_request(node.id, now_ms):
            message, version, is_partial = self._metadata.new_request(now_ms)
            self._in_progress = version, is_partial
            client.send_metadata_request(client.new_request(node.id, message), now_ms)
            return self._request_timeout_ms
        # That connection may serve this request: waiting is cheaper than making another one.
        if client.is_any_node_connecting():
            return self._reconnect_backoff_ms
        if client.can_connect(node.id, now_ms):
            client.initiate_connect(node, now_ms)
            return self._reconnect_backoff_ms
        # The node is connected, but at its limit of requests in flight: the next answer ends the poll.
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int, reason: str) -> None:
        """Request an update, because the metadata may be stale. If one was due already, count this as its failure."""
        cluster = self._metadata.cluster
        node = cluster.nodes.get(node_id)
        if node is not None:
            self._metadata.connection_failed(node, reason)
            if cluster.is_bootstrap:
                logger.info("Bootstrap broker %s disconnected: %s", node, reason)
                self._metadata.bootstrap_failed(node, reason, now_ms)
        if self.is_update_due(now_ms):
            self.handle_failed_request(now_ms, None)
        self._metadata.request_update()

    def handle_authentication_failure(self, node: Node | None, error: AuthenticationFailed) -> None:
        """Fail the call that waits, or else the next one: a retry with the same settings cannot help."""
        self._metadata.fail(authentication_error(node, error))

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """Note that the request got no answer. With an `error`, no such request can ever be sent."""
        self._metadata.failed_update(now_ms)
        self._in_progress = None
        if error is not None:
            self._metadata.fail(error)

    def handle_response(self, body: Message, now_ms: int) -> None:
        """Take in an answer. An answer without brokers comes from a broker that is starting, and is retried later."""
        assert isinstance(body, MetadataResponse)
        assert self._in_progress is not None
        version, is_partial = self._in_progress
        self._in_progress = None
        if body.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._recovers:
            logger.info("Rebootstrap requested by server.")
            self._is_rebootstrap_required = True
        elif body.brokers and not body.error_code:
            self._metadata.update(version, body, is_partial, now_ms)
            self._attempted_since_ms = None
        else:
            self._metadata.failed_update(now_ms)

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return whether a broker has required it, or no answer came for too long."""
        since_ms = self._attempted_since_ms
        is_late = since_ms is not None and now_ms - since_ms > self._trigger_ms
        return self._recovers and (self._is_rebootstrap_required or is_late)

    def rebootstrap(self, now_ms: int) -> None:
        """Begin again with the addresses that the user gave."""
        self._metadata.rebootstrap()
        self._is_rebootstrap_required = False
        self._attempted_since_ms = now_ms
