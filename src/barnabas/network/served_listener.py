"""What every connection of one listener has in common, and which plane the listener belongs to. Immutable.

Made by the ListenerFactory for each listener, kept by its Acceptor and Processors, which put it into the context of
every connection they serve. Kafka: DataPlaneAcceptor and ControlPlaneAcceptor (their prefixes and listener names).
"""

from __future__ import annotations

from typing import Final, NamedTuple

DATA_PLANE: Final = "data-plane"
CONTROL_PLANE: Final = "control-plane"


class ServedListener(NamedTuple):
    """A listener as its threads see it. Their names begin with `plane`."""

    name: str
    security_protocol: str
    privileged: bool = False
    """Brokers and the controller come in here: the control plane, or without one the inter-broker listener."""
    plane: str = DATA_PLANE

    def __str__(self) -> str:
        """Return the listener as the names of threads have it."""
        return f"ListenerName({self.name})-{self.security_protocol}"
