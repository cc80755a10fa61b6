"""The source from which a NetworkClient learns of nodes, as a Protocol, with an implementation for known nodes.

Implemented by `clients` and by ManualMetadataUpdater; called on the client's thread only, so no lock.
Kafka: MetadataUpdater, ManualMetadataUpdater.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import ClientRequest
from barnabas.rpc.connection_states import Node
from barnabas.transport.channel.authenticator import AuthenticationFailed

FOREVER_MS = 2**31 - 1


class MetadataClient(Protocol):
    """The part of a NetworkClient that its updater uses: to choose a node and to send one request to it."""

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Return the node to ask, or None while no node can be used."""

    def has_ready_nodes(self, now_ms: int) -> bool:
        """Return whether any node takes requests now."""

    def can_send_request(self, node_id: int, now_ms: int) -> bool:
        """Return whether the node takes a request now."""

    def is_any_node_connecting(self) -> bool:
        """Return whether a connection is being made."""

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Return whether there is no connection, and the wait after a failure is over."""

    def initiate_connect(self, node: Node, now_ms: int) -> None:
        """Begin to connect."""

    def new_request(self, node_id: int, message: Message) -> ClientRequest:
        """Make a request."""

    def send_metadata_request(self, request: ClientRequest, now_ms: int) -> None:
        """Queue the updater's own request."""


class MetadataUpdater(Protocol):
    """A list of nodes that keeps itself fresh by requests of its own, and learns how those requests end."""

    def nodes(self) -> Sequence[Node]:
        """Return the nodes known now."""

    def is_update_due(self, now_ms: int) -> bool:
        """Return whether metadata should be fetched before anything else is sent."""

    def maybe_update(self, client: MetadataClient, now_ms: int) -> int:
        """Begin an update if one is due and possible; return after how many milliseconds to call again."""

    def handle_disconnect(self, node_id: int, now_ms: int, reason: str) -> None:
        """Note that a connection was lost: the known nodes may be out of date."""

    def handle_authentication_failure(self, node: Node | None, error: AuthenticationFailed) -> None:
        """Note that a node and this client do not trust each other: a retry with the same settings cannot help."""

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """Note that the request of `maybe_update` got no answer, or cannot be sent at all (`error`)."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """Take the answer to the request of `maybe_update`."""

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return whether the known nodes are to be given up, with their connections, for those of the user."""

    def rebootstrap(self, now_ms: int) -> None:
        """Begin again with the addresses that the user gave."""


class ManualMetadataUpdater:
    """A MetadataUpdater with a fixed list of nodes, for channels to known peers. It sends no request."""

    def __init__(self, nodes: Sequence[Node] = ()) -> None:
        self._nodes = tuple(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Replace the list."""
        self._nodes = tuple(nodes)

    def nodes(self) -> Sequence[Node]:
        """Return the list."""
        return self._nodes

    def is_update_due(self, now_ms: int) -> bool:
        """Return False: the list does not age."""
        return False

    def maybe_update(self, client: MetadataClient, now_ms: int) -> int:
        """Return that there is nothing to update, ever."""
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int, reason: str) -> None:
        """Do nothing: the nodes stay the same."""

    def handle_authentication_failure(self, node: Node | None, error: AuthenticationFailed) -> None:
        """Do nothing: the caller of a channel to a known peer sees that the connection has failed, and the log why."""

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """Do nothing: there is no request of this updater."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """Do nothing: there is no request of this updater."""

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return False: the list is all there is."""
        return False

    def rebootstrap(self, now_ms: int) -> None:
        """Do nothing: the nodes stay the same."""
