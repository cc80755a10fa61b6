"""The properties that all connections of one listener share, and the plane of the listener. Immutable.

Made by the ListenerFactory for each listener, kept by its Acceptor and Processors, which put it into the context of
every connection they serve. Kafka: DataPlaneAcceptor and ControlPlaneAcceptor (their prefixes and listener names).
"""

from __future__ import annotations

from typing import Final, NamedTuple

DATA_PLANE: Final = "data-plane"
CONTROL_PLANE: Final = "control-plane"


class ServedListener(NamedTuple):
    """A listener as its threads see it. The names of the threads begin with `plane`."""

    name: str
    security_protocol: str
    privileged: bool = False
    """Whether brokers and the controller use this listener: the control plane's, or without one the inter-broker
listener."""
    plane: str = DATA_PLANE

    def __str__(self) -> str:
        """Return the text for the names of threads."""
        return f"ListenerName({self.name})-{self.security_protocol}"
