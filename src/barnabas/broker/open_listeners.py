"""The listeners that other machines reach and that ask nobody for an identity, for one line in the log at the start.

Called by BrokerServer on the main thread. Pure. Kafka: no counterpart.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import EndPoint, listeners_of
from barnabas.security.tls.tls_config import TlsConfig

_REQUIRED: Final = "required"


def open_listeners(config: ConfigValues) -> list[EndPoint]:
    """Return the listeners without authentication that are bound to more than the loopback interface."""
    return [
        end_point
        for end_point in listeners_of(config)
        if not _is_loopback(end_point.host) and not _authenticates(end_point, config)
    ]


def _authenticates(end_point: EndPoint, config: ConfigValues) -> bool:
    """Return whether every client of a listener has to prove an identity."""
    if end_point.security_protocol == "SSL":
        client_auth = TlsConfig.of(config.of_listener(end_point.listener_name)).client_auth
        return client_auth == _REQUIRED
    return end_point.security_protocol.startswith("SASL_")


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # All interfaces (no host), or a name, which may be that of any interface.
        return False
