"""How a NetworkClient learns which nodes there are (Kafka: MetadataUpdater). Called on the client's thread only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.protocol.messages.message import Message
from barnabas.rpc.node import Node

if TYPE_CHECKING:
    from barnabas.rpc.network_client import NetworkClient

FOREVER_MS = 2**31 - 1


class MetadataUpdater(Protocol):
    """Keeps the list of nodes fresh by requests of its own, and hears what became of them."""

    def nodes(self) -> Sequence[Node]:
        """The nodes known now."""

    def is_update_due(self, now_ms: int) -> bool:
        """Whether metadata should be fetched before anything else is sent."""

    def maybe_update(self, client: NetworkClient, now_ms: int) -> int:
        """Begin an update if one is due and possible; milliseconds until this should be called again."""

    def handle_disconnect(self, node_id: int, now_ms: int) -> None:
        """A connection was lost: what is known may be out of date."""

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """The request of `maybe_update` got no answer, or cannot be sent at all (`error`)."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """The answer to the request of `maybe_update`."""


class ManualMetadataUpdater:
    """A fixed list of nodes, for channels to known peers."""

    def __init__(self, nodes: Sequence[Node] = ()) -> None:
        self._nodes = tuple(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Replace the list."""
        self._nodes = tuple(nodes)

    def nodes(self) -> Sequence[Node]:
        """See MetadataUpdater."""
        return self._nodes

    def is_update_due(self, now_ms: int) -> bool:
        """Never."""
        return False

    def maybe_update(self, client: NetworkClient, now_ms: int) -> int:
        """There is nothing to update."""
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int) -> None:
        """The nodes stay the same."""

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """No request of this updater exists."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """No request of this updater exists."""
