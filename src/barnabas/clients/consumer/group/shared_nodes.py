"""The nodes of the consumer's own client, for the coordinator channel's NetworkClient.

Called on the channel's thread. No state of its own: the ClusterMetadata is shared with the consumer's thread, under
that class's condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.clients.authentication_errors import authentication_error
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.protocol.messages.message import Message
from barnabas.rpc.metadata_updater import FOREVER_MS, MetadataClient
from barnabas.rpc.node import Node
from barnabas.transport.authenticator import AuthenticationFailed


class SharedNodes:
    """A MetadataUpdater that sends no requests: the consumer's own client keeps the metadata fresh."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that the consumer's client knows now."""
        return tuple(self._metadata.cluster.nodes.values())

    def is_update_due(self, now_ms: int) -> bool:
        """Return False, because the consumer's own client updates the metadata."""
        return False

    def maybe_update(self, client: MetadataClient, now_ms: int) -> int:
        """Return an endless wait, because no update is ever due here."""
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int, reason: str) -> None:
        """Request an update from the consumer's client, because the lost node may have gone for good."""
        self._metadata.request_update()

    def handle_authentication_failure(self, node: Node | None, error: AuthenticationFailed) -> None:
        """Fail the consumer's next poll."""
        self._metadata.fail(authentication_error(node, error))

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """Do nothing: this updater sends no requests."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """Do nothing: this updater sends no requests."""

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return False: the consumer's own client gives up the nodes, and this client then sees the new ones."""
        return False

    def rebootstrap(self, now_ms: int) -> None:
        """Do nothing: the consumer's own client does it."""
