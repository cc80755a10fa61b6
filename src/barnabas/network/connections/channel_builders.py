"""The listeners as the network layer serves them: what their connections share, and the builders of their channels.

A builder is asked for on the thread that opens a listener or resizes its threads. The broker's own ChannelBuilders have
one for each listener, made of that listener's settings (`broker.channels.listener_channels`).

Kafka: ChannelBuilders.serverChannelBuilder, DataPlaneAcceptor and ControlPlaneAcceptor (their prefixes and listener
names).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.transport.channel.authenticator import ChannelBuilder, plaintext_channel

DATA_PLANE: Final = "data-plane"
CONTROL_PLANE: Final = "control-plane"


class ServedListener(NamedTuple):
    """The properties that all connections of one listener share. The names of its threads begin with `plane`.

    Made by the ListenerFactory for each listener, kept by its Acceptor and Processors, which put it into the context of
    every connection they serve.
    """

    name: str
    security_protocol: str
    privileged: bool = False
    """Whether brokers and the controller use this listener: the control plane's, or without one the inter-broker
    listener."""
    plane: str = DATA_PLANE

    def __str__(self) -> str:
        """Return the text for the names of threads."""
        return f"ListenerName({self.name})-{self.security_protocol}"


class ChannelBuilders(Protocol):
    """The builders of all listeners."""

    def check(self, end_point: EndPoint) -> None:
        """Check a listener that is to be opened. Raises ConfigError: its protocol or settings cannot be used."""

    def builder_of(self, listener_name: str, security_protocol: str) -> ChannelBuilder:
        """Return the builder of an open listener, the same one each time."""


class BuildersByProtocol:
    """One builder for all listeners of a security protocol. Immutable."""

    def __init__(self, by_protocol: Mapping[str, ChannelBuilder]) -> None:
        self._by_protocol = by_protocol

    def check(self, end_point: EndPoint) -> None:
        """Check a listener that is to be opened. Raises ConfigError: there is no builder for its protocol."""
        check_protocol(end_point, self._by_protocol)

    def builder_of(self, listener_name: str, security_protocol: str) -> ChannelBuilder:
        """Return the protocol's builder."""
        return self._by_protocol[security_protocol]


PLAINTEXT_ONLY: Final = BuildersByProtocol({"PLAINTEXT": plaintext_channel})
"""Listeners without protection. A listener of any other protocol is rejected, never served unencrypted."""


def check_protocol(end_point: EndPoint, served: Mapping[str, object] | tuple[str, ...]) -> None:
    """Check a listener's security protocol. Raises ConfigError: it is not among those that are served."""
    if end_point.security_protocol not in served:
        raise ConfigError(
            f"listeners: {end_point.connection_string} uses {end_point.security_protocol}; supported is only "
            f"{', '.join(served)}",
            "listeners",
        )
