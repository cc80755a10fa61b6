"""The part that hands changed limits of connections and threads to the network, for all listeners and for one.

Called by DynamicBrokerConfig; has no state that changes, so no lock. Kafka: the reconfigurable parts of
kafka.network.SocketServer, DataPlaneAcceptor and ListenerConnectionQuota.
"""

from __future__ import annotations

from barnabas.config.config_error import ConfigError
from barnabas.config.dynamic_settings import check_thread_count
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import inter_broker_listener_name_of, listeners_of
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.network.socket_server import SocketServer

_PER_LISTENER = ("max.connections", "max.connection.creation.rate")
_THREADS = "num.network.threads"


class DynamicNetwork:
    """A part that reconfigures `sockets`. broker_id: part of the threads' names."""

    settings = NetworkConfig.dynamic_names() | ListenerConfig.dynamic_names()
    """`listeners` is among them: a new one must find the settings of its own."""

    def __init__(self, sockets: SocketServer, broker_id: int) -> None:
        self._sockets = sockets
        self._broker_id = broker_id

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the limits of every listener. Raises ConfigError: one is not positive, or threads change too much."""
        had = {end_point.listener_name for end_point in listeners_of(current)}
        for end_point in listeners_of(proposed):
            name = end_point.listener_name
            for setting in _PER_LISTENER:
                value = _integer(proposed, name, setting)
                if value <= 0:
                    raise ConfigError(f"Invalid {setting} {value}", setting)
            # A listener that is added has no threads yet, so any number of threads is allowed.
            if name in had:
                check_thread_count(_THREADS, _integer(current, name, _THREADS), _integer(proposed, name, _THREADS))
        # Made for its checks alone: a host name in a limit per address must be one that can be resolved.
        self._network_config(proposed)

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Hand the new settings to the network."""
        self._sockets.reconfigure(self._network_config(current))

    def _network_config(self, config: KafkaConfig) -> NetworkConfig:
        return NetworkConfig.from_kafka_config(
            config, broker_id=self._broker_id, inter_broker_listener=inter_broker_listener_name_of(config)
        )


def _integer(config: KafkaConfig, listener_name: str, setting: str) -> int:
    return config.of_listener(listener_name).integer(setting)
