"""What every connection of one listener has in common, and which plane it belongs to. Immutable.

Made by SocketServer for each listener, kept by its Acceptor and Processors, which put it into the context of every
connection they serve. Kafka: the constructor arguments of SocketServer.Acceptor and Processor; DataPlaneAcceptor and
ControlPlaneAcceptor with their prefixes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DATA_PLANE: Final = "data-plane"
CONTROL_PLANE: Final = "control-plane"


class ServedListener(NamedTuple):
    """A listener as its threads see it. `plane` begins their names."""

    name: str
    security_protocol: str
    privileged: bool = False
    """Brokers and the controller come in here: the control plane, or without one the inter-broker listener."""
    plane: str = DATA_PLANE

    def __str__(self) -> str:
        """As in the names of threads."""
        return f"ListenerName({self.name})-{self.security_protocol}"
