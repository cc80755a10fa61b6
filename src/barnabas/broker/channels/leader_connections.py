"""The connections of this broker to others over the inter-broker listener: those of replica fetchers, and all others.

Late: made for replica fetchers, changes of in-sync replicas and the transaction coordinator, when these are made.
Immutable, so any thread may call them; a client that they return belongs to one thread.

Kafka: ReplicaFetcherManager.createFetcherThread, MetadataCache.getAliveBrokerNode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from barnabas.broker.channels.broker_channels import BrokerConnections
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.replica.fetcher.fetcher_manager import FetcherId
from barnabas.replica.fetcher.leader_end_point import RemoteLeader
from barnabas.replica.replica_config import FetcherConfig
from barnabas.rpc.connection_states import Node
from barnabas.rpc.fetch_request import FetchingReplica, FetchLimits
from barnabas.rpc.network_client import NetworkClient


class InterBrokerAddresses:
    """The addresses of live brokers, and of this one, at the brokers' own listener (BrokerAddresses).

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
        config = self._connections.client_config(self._listener_name)
        return self._connections.client(replace(config, discover_broker_versions=self._discovers_versions))


class LeaderConnections:
    """The way of replica fetchers to leaders. broker_epoch: of this broker's registration, which changes with each."""

    def __init__(
        self,
        connections: BrokerConnections,
        listener_name: str,
        config: FetcherConfig,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._connections = connections
        self._listener_name = listener_name
        self._config = config
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._kept = self._limits_of(broker_epoch())

    def connect(self, fetcher_id: FetcherId) -> RemoteLeader:
        """Return a leader that is connected to at its first use.

        Called by ReplicaFetcherManager under its lock, when a thread is made; the thread owns the connection from then
        on. Raises ConfigError: the listener has a security protocol that brokers do not speak to each other.
        """
        config, leader = self._config, fetcher_id.leader
        client_config = replace(
            self._connections.client_config(self._listener_name),
            client_id=f"broker-{self._broker_id}-fetcher-{fetcher_id.number}",
            request_timeout_ms=config.socket_timeout_ms,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        connection = self._connections.connection(leader, client_config)
        return RemoteLeader(leader, connection, self._limits, self._broker_id, config.socket_timeout_ms)

    def _limits(self) -> FetchLimits:
        limits, epoch = self._kept, self._broker_epoch()
        if limits.replica.broker_epoch != epoch:
            limits = self._kept = self._limits_of(epoch)
        return limits

    def _limits_of(self, epoch: int) -> FetchLimits:
        config = self._config
        return FetchLimits(
            config.wait_max_ms,
            config.min_bytes,
            config.response_max_bytes,
            replica=FetchingReplica(self._broker_id, epoch),
        )
