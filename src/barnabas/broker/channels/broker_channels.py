"""The connections of this broker's controller to brokers, over the control plane's or the inter-broker listener.

Made by BrokerServer on the main thread. The controller's thread makes and closes channels; `_channels` is replaced by
one assignment, so that gauges may read it on any thread.

The broker reaches its own plaintext listener at the address that is bound, by loopback if that is every address: the
advertised one need not be reachable from here. It reaches a protected one at the advertised address, whose name is in
the certificate. Kafka: ControllerChannelManager.addNewBroker, which always takes the advertised address.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from barnabas.broker.channels.inter_broker_security import InterBrokerSecurity
from barnabas.broker.settings.own_listeners import OwnListeners
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import controller_listener_name_of
from barnabas.config.setting import Settings, computed, setting
from barnabas.controller.network_broker_channel import NetworkBrokerChannel
from barnabas.metrics.histogram import DurationTimer
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import PeerConnection
from barnabas.runtime.clock import Clock
from barnabas.transport.channel.authenticator import plaintext_channel
from barnabas.transport.host_addresses import Probe, probe
from barnabas.transport.selector import Selector
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

if TYPE_CHECKING:
    from barnabas.rpc.network_client import NetworkClient

# Kafka: Selector.NO_IDLE_TIMEOUT_MS. The channel to a broker stays open in a cluster where nothing happens.
NEVER_IDLE: Final = -1
RECONNECT_BACKOFF_MS: Final = 50
SYSTEM_BUFFER_SIZE: Final = -1
LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
GROUP, KIND, QUEUE_SIZE, QUEUE_TIME = (
    "kafka.controller",
    "ControllerChannelManager",
    "QueueSize",
    "RequestRateAndQueueTimeMs",
)


class ConnectionConfig(Settings):
    """Timeouts of connections to brokers. controller_listener: its name, where the controller reaches brokers."""

    request_timeout_ms: int = setting("request.timeout.ms")
    controller_request_timeout_ms: int = setting("controller.socket.timeout.ms")
    setup_timeout_ms: int = setting("socket.connection.setup.timeout.ms")
    setup_timeout_max_ms: int = setting("socket.connection.setup.timeout.max.ms")
    controller_listener: str = computed(controller_listener_name_of, "control.plane.listener.name")


def _refuses_connections(node: Node) -> bool:
    return probe(node.host, node.port) is Probe.REFUSED


class BrokerConnections:
    """The connections to brokers. listeners: those of this broker, bound by the time a connection is made.

    Raises ConfigError: this broker lacks a key or a login that the listeners of brokers ask for.
    """

    def __init__(
        self, config: KafkaConfig, broker_id: int, listeners: OwnListeners, clock: Clock, metrics: MetricsRegistry
    ) -> None:
        self._config = ConnectionConfig.from_kafka_config(config)
        self.security = InterBrokerSecurity(config, str(broker_id))
        self._broker_id = broker_id
        self._listeners = listeners
        self._clock = clock
        self._metrics = metrics
        self._random = Random()
        self._channels: dict[int, NetworkBrokerChannel] = {}
        text = "Requests of the controller that wait to be sent"
        metrics.register(
            GROUP, KIND, "TotalQueueSize", text, lambda: sum(c.queue_size for c in self._channels.values())
        )

    def node(self, broker_id: int, addresses: Mapping[str, tuple[str, int]], listener_name: str) -> Node:
        """Return the address at which a broker's listener is reached from here.

        addresses: (host, port) by listener, as the broker advertises them. Raises ConfigError: the broker advertises no
        listener of that name. Raises KeyError: the broker is this one, and has no such listener open.
        """
        if broker_id == self._broker_id and not self.security.protects(listener_name):
            own = self._listeners.bound_end_point(listener_name)
            return Node(broker_id, LOOPBACK.get(own.host, own.host), own.port)
        if listener_name not in addresses:
            raise ConfigError(f"End point with listener name {listener_name} not found for broker {broker_id}")
        return Node(broker_id, *addresses[listener_name])

    def client_config(self, listener_name: str) -> NetworkClientConfig:
        """Return the settings of connections to a listener of other brokers."""
        config = self._config
        return NetworkClientConfig(
            client_id=str(self._broker_id),
            # One at a time: orders to a broker must arrive in the sequence in which the controller gave them.
            max_in_flight=1,
            request_timeout_ms=config.request_timeout_ms,
            reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MS,
            connection_setup_timeout_ms=config.setup_timeout_ms,
            connection_setup_timeout_max_ms=config.setup_timeout_max_ms,
            send_buffer_bytes=SYSTEM_BUFFER_SIZE,
            receive_buffer_bytes=SYSTEM_BUFFER_SIZE,
            channel_builder=self.security.builder_of(listener_name),
        )

    def connection(self, node: Node, config: NetworkClientConfig) -> PeerConnection:
        """Return a connection to one node, which is made at its first use."""
        return PeerConnection(node, self._selector(), config, self._clock, self._random)

    def client(self, config: NetworkClientConfig) -> NetworkClient:
        """Return a client for the nodes that are given to its `ready`; a broker alone needs none."""
        from barnabas.rpc.metadata_updater import ManualMetadataUpdater
        from barnabas.rpc.network_client import NetworkClient

        return NetworkClient(self._selector(), ManualMetadataUpdater(), config, self._clock, self._random)

    def _selector(self) -> Selector:
        return Selector(self._clock, max_idle_ms=NEVER_IDLE, channel_builder=plaintext_channel)

    def new_channel(self, broker: BrokerInfo) -> NetworkBrokerChannel:
        """Return a channel of the controller to a broker (ChannelFactory)."""
        listener_name = self._config.controller_listener
        addresses = {each.listener_name: (each.host, each.port) for each in broker.endpoints}
        node = self.node(broker.id, addresses, listener_name)
        tags = {"broker-id": str(broker.id)}
        text = "Requests of the controller, and how long they waited, by broker"
        timer = self._metrics.register(GROUP, KIND, QUEUE_TIME, text, DurationTimer(), tags)
        channel = NetworkBrokerChannel(
            self._broker_id,
            node,
            self.connection(node, self.client_config(listener_name)),
            self._config.controller_request_timeout_ms,
            on_taken=timer.update,
            on_closed=lambda: self._forget(broker.id, tags),
            # Not of this broker itself: whether its own listener is open, it knows.
            refuses_connections=None if broker.id == self._broker_id else partial(_refuses_connections, node),
        )
        text = "Requests of the controller that wait to be sent, by broker"
        self._metrics.register(GROUP, KIND, QUEUE_SIZE, text, lambda: channel.queue_size, tags)
        # Replaced, not changed: the gauge may be adding up the old dict on another thread.
        self._channels = {**self._channels, broker.id: channel}
        return channel

    def _forget(self, broker_id: int, tags: Mapping[str, str]) -> None:
        self._channels = {each: channel for each, channel in self._channels.items() if each != broker_id}
        self._metrics.remove(GROUP, KIND, QUEUE_SIZE, tags)
        self._metrics.remove(GROUP, KIND, QUEUE_TIME, tags)
