"""The listeners of this broker: their bound addresses, those advertised, and those that ask for no identity.

Made by BrokerServer. `bound` is set by the main thread once the sockets are bound, and replaced when listeners are
added or removed while the broker runs (a scheduler's thread); any thread reads it, so it is replaced and never changed.

Kafka: KafkaServer.createBrokerInfo, SocketServer.boundPort.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from barnabas.broker.settings.server_config import ServerConfig
from barnabas.config.config_values import ConfigValues
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import EndPoint, advertised_listeners_of, listeners_of
from barnabas.transport.host_addresses import canonical_host_name
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

UNROUTABLE_HOSTS = ("", "0.0.0.0", "::")
_CLIENT_AUTH_REQUIRED: Final = "required"


class OwnListeners:
    """The listeners of one broker; `bound` is empty until its sockets are bound.

    current: the settings in force now, the advertised listeners among them.
    """

    def __init__(self, current: Callable[[], KafkaConfig]) -> None:
        self._current = current
        self.bound: Sequence[EndPoint] = ()

    def bound_end_point(self, listener_name: str) -> EndPoint:
        """Return the address of a listener, with its real port. Raises KeyError when no such listener is open."""
        for end_point in self.bound:
            if end_point.listener_name == listener_name:
                return end_point
        raise KeyError(listener_name)

    def advertised(self) -> list[EndPoint]:
        """Return the advertised listeners, with bound ports and a host that clients can use.

        Only open listeners are advertised. Without `advertised.listeners` an address is the one that is bound, which
        may differ from the one in `listeners`: a listener may have been added while the broker runs.
        """
        bound = {end_point.listener_name: end_point for end_point in self.bound}
        config = self._current()
        as_bound = ServerConfig.from_kafka_config(config).are_listeners_advertised
        advertised = []
        for end_point in advertised_listeners_of(config):
            listener = bound.get(end_point.listener_name)
            if listener is None:
                continue
            # As bound where no other address is given; else as given, with the bound port in place of port 0.
            named = listener if as_bound else end_point if end_point.port else end_point.with_port(listener.port)
            # No client can connect to a wildcard address. Kafka advertises the canonical host name as well. The look-up
            # may block.
            if named.host in UNROUTABLE_HOSTS:
                named = replace(named, host=canonical_host_name())
            advertised.append(named)
        return advertised

    def broker_info(self, broker_id: int) -> BrokerInfo:
        """Return this broker's entry among the live brokers, as its settings and open listeners are now."""
        rack = ServerConfig.from_kafka_config(self._current()).rack
        return BrokerInfo(broker_id, tuple(self.advertised()), rack)


def unauthenticated_listeners(config: ConfigValues) -> list[EndPoint]:
    """Return the listeners without authentication that are bound to more than the loopback interface.

    The broker logs them when it has started. Kafka has no counterpart.
    """
    return [
        end_point
        for end_point in listeners_of(config)
        if not _is_loopback(end_point.host) and not _authenticates(end_point, config)
    ]


def _authenticates(end_point: EndPoint, config: ConfigValues) -> bool:
    """Return whether every client of a listener has to prove an identity."""
    if end_point.security_protocol == "SSL":
        from barnabas.security.tls.tls_config import TlsConfig

        client_auth = TlsConfig.of(config.of_listener(end_point.listener_name)).client_auth
        return client_auth == _CLIENT_AUTH_REQUIRED
    return end_point.security_protocol.startswith("SASL_")


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # All interfaces (no host), or a name, which may be that of any interface.
        return False
