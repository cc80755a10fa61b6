"""The way from this broker to the others, and to itself, over the brokers' own listener (BrokerAddresses).

Made by the stages of a start on the main thread, for each thread that sends requests to brokers. Immutable; any thread
calls it. Kafka: MetadataCache.getAliveBrokerNode.
"""

from __future__ import annotations

from barnabas.broker.broker_channels import BrokerConnections
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.node import Node


class InterBrokerAddresses:
    """The brokers' own listener of each live broker.

    discovers_versions: clients ask a broker for its versions first, where a request may be sent in several.
    """

    def __init__(
        self,
        connections: BrokerConnections,
        metadata: MetadataCache,
        listener_name: str,
        *,
        discovers_versions: bool = False,
    ) -> None:
        self._connections = connections
        self._metadata = metadata
        self._listener_name = listener_name
        self._discovers_versions = discovers_versions

    def node(self, broker_id: int) -> Node:
        """Return the address of a live broker. Raises KeyError or ConfigError when it is not known now."""
        broker = self._metadata.image.brokers[broker_id]
        return self._connections.node(broker_id, broker.endpoints, self._listener_name)

    def new_client(self) -> NetworkClient:
        """Return a client for all brokers; `node` gives their addresses one by one."""
        return self._connections.client_of([], self._listener_name, discovers_versions=self._discovers_versions)
