"""The listeners that are added, removed and advertised anew while the broker runs.

Called by DynamicBrokerConfig; the SocketServer and the registration have locks of their own. A listener that exists
keeps its address and security. Kafka: DynamicListenerConfig in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from barnabas.config.broker_config_keys import LISTENER_PREFIX
from barnabas.config.config_error import ConfigError
from barnabas.config.dynamic_settings import LISTENER_SETTINGS_FOR_ALL, STORES_OF_LISTENERS
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import EndPoint, ListenersConfig
from barnabas.network.socket_server import SocketServer

logger = logging.getLogger(__name__)


class DynamicListeners:
    """A part that opens and closes listeners. advertise: registers the broker anew, with its listeners of then."""

    settings = ListenersConfig.dynamic_names()

    def __init__(self, sockets: SocketServer, advertise: Callable[[], None]) -> None:
        self._sockets = sockets
        self._advertise = advertise

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the changes of listeners; the rules within one configuration are checked before.

        Raises ConfigError: a listener that is open would need another protocol or settings that are read only once, or
        the listener between brokers would be another one.
        """
        before, after = ListenersConfig.from_kafka_config(current), ListenersConfig.from_kafka_config(proposed)
        old, new = _by_name(before.listening), _by_name(after.listening)
        advertised = _by_name(after.advertised)
        # The sockets of an open listener read their security and most of their settings once, when they are opened.
        for name in new.keys() & old.keys():
            if _fixed_settings(current, name) != _fixed_settings(proposed, name):
                raise ConfigError(
                    f"Configs cannot be updated dynamically for existing listener ListenerName({name}), "
                    "restart broker or create a new listener for update"
                )
            if old[name].security_protocol != after.protocols[name]:
                raise ConfigError(f"Security protocol cannot be updated for existing listener ListenerName({name})")
        if after.inter_broker not in advertised:
            raise ConfigError(
                f"Advertised listener must be specified for inter-broker listener ListenerName({after.inter_broker})"
            )
        if after.inter_broker != before.inter_broker:
            raise ConfigError("The listener between brokers cannot be replaced by another one while the broker runs")

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Open and close listeners. An address that cannot be opened is logged, and tried again at the next change."""
        before, after = ListenersConfig.from_kafka_config(previous), ListenersConfig.from_kafka_config(current)
        open_before, wanted = (
            _by_name(acceptor.end_point for acceptor in self._sockets.acceptors),
            _by_name(after.listening),
        )
        removed = [end_point for name, end_point in open_before.items() if name not in wanted]
        # Closed first: a new listener may use the port of a removed one.
        if removed:
            self._sockets.remove_listeners(removed)
        for name, end_point in wanted.items():
            if name not in open_before:
                self._add(end_point)
            elif end_point.host != open_before[name].host or end_point.port not in (0, open_before[name].port):
                # A port 0 that the system has replaced by a free port is no change.
                logger.warning("Listener %s keeps its address, port %d, until a restart", name, open_before[name].port)
        open_now = _by_name(acceptor.end_point for acceptor in self._sockets.acceptors)
        # Only then: each registration is a write to the store, and the controller announces it to every broker.
        if open_now != open_before or before.advertised != after.advertised:
            self._advertise()

    def _add(self, end_point: EndPoint) -> None:
        try:
            self._sockets.add_listeners([end_point])
        except (OSError, ConfigError) as error:
            logger.error("Listener %s is not open: %s", end_point.connection_string, error)  # noqa: TRY400 as it says


def _by_name(end_points: Iterable[EndPoint]) -> dict[str, EndPoint]:
    return {end_point.listener_name: end_point for end_point in end_points}


def _fixed_settings(config: KafkaConfig, listener_name: str) -> dict[str, str]:
    """Return the settings of this listener alone that are read once, when it is opened: no limits, no key stores."""
    prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."
    own = {name.removeprefix(prefix): value for name, value in config.originals.items() if name.startswith(prefix)}
    return {name: value for name, value in own.items() if name not in LISTENER_SETTINGS_FOR_ALL | STORES_OF_LISTENERS}
