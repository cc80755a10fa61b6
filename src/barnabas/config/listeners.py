"""Listeners: the addresses bound, the addresses advertised to clients, and the security protocol of each listener.

Pure functions, called by the rules between settings and by the parts of the broker that declare `ListenersConfig`; the
results are immutable. The messages are Kafka's. Kafka: EndPoint, SocketServerConfigs.listenerListToEndPoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import Address
from barnabas.config.config_values import ConfigValues
from barnabas.config.setting import Settings, computed, setting

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

# Kafka's pattern, as lenient as it: any name before "://", and an IPv6 address with or without brackets.
_URI = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class EndPoint:
    """One listener's address. host: empty for all interfaces. port: 0 asks for an ephemeral one."""

    host: str
    port: int
    listener_name: str
    security_protocol: str

    @property
    def connection_string(self) -> str:
        """The address as NAME://host:port, with IPv6 addresses in brackets. Kafka: EndPoint.connectionString."""
        return f"{self.listener_name}://{self.host_and_port}"

    @property
    def host_and_port(self) -> str:
        """The address as clients write it: host:port."""
        return Address(self.host, self.port).text

    def with_port(self, port: int) -> EndPoint:
        """Return the same listener on the port that was bound."""
        return EndPoint(self.host, port, self.listener_name, self.security_protocol)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse listener.security.protocol.map: listener name (upper case) -> security protocol.

    Raises ConfigError: an entry has another form, an unknown protocol, or a name that was there before.
    """
    name = "listener.security.protocol.map"
    result: dict[str, str] = {}
    for entry in _entries(text):
        listener, separator, protocol = entry.rpartition(":")
        if not separator:
            raise ConfigError.invalid(name, text, f"{entry} is not of the form LISTENER:PROTOCOL")
        protocol = protocol.strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError.invalid(
                name, text, f"Unknown security protocol {protocol}; known are {', '.join(SECURITY_PROTOCOLS)}"
            )
        listener = listener.strip().upper()
        if listener in result:
            raise ConfigError.invalid(name, text, f"There is more than one entry for {listener}")
        result[listener] = protocol
    return result


def parse_listeners(text: str, protocol_map: Mapping[str, str], name: str = "listeners") -> list[EndPoint]:
    """Parse a comma-separated list. Raises ConfigError: an end point is malformed, repeated or without a protocol."""
    end_points = [_parse_end_point(entry, protocol_map, name) for entry in _entries(text)]
    names = [end_point.listener_name for end_point in end_points]
    if len(set(names)) != len(names):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}", name)
    return end_points


def listeners_of(config: ConfigValues) -> list[EndPoint]:
    """Return the end points to bind, in the order of the file, without the listeners of a KRaft controller.

    Raises ConfigError: there is no listener, one is malformed, or two share a port. An IPv4 and an IPv6 address may.
    """
    text = config.string("listeners")
    end_points = _without_controllers(config, parse_listeners(text, protocol_map_of(config)))
    if not end_points:
        raise ConfigError("listeners must name at least one listener", "listeners")
    by_port: dict[int, list[EndPoint]] = {}
    for end_point in end_points:
        if end_point.port != 0:
            by_port.setdefault(end_point.port, []).append(end_point)
    for port, sharing in by_port.items():
        # An IPv4 and an IPv6 socket may share a port. A host that is left empty means both, and so may share with none.
        is_pair = len(sharing) == 2 and sum(":" in end_point.host for end_point in sharing) == 1
        if len(sharing) > 1 and not (is_pair and all(end_point.host for end_point in sharing)):
            raise ConfigError(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {text}, port: {port}",
                "listeners",
            )
    return end_points


def advertised_listeners_of(config: ConfigValues) -> list[EndPoint]:
    """Return the end points advertised to clients: advertised.listeners, or else listeners.

    An empty host or port 0 is filled in once the listener is bound. Raises ConfigError: an address cannot be routed to,
    or its listener does not exist.
    """
    text = config.optional_string("advertised.listeners")
    if not text:
        return listeners_of(config)
    advertised = parse_listeners(text, protocol_map_of(config), "advertised.listeners")
    advertised = _without_controllers(config, advertised)
    listening = {end_point.listener_name for end_point in listeners_of(config)}
    # Clients cannot connect to the wildcard address. Kafka's text names the IPv4 one only, for "::" too.
    for end_point in advertised:
        if end_point.host in ("0.0.0.0", "::"):
            raise ConfigError(
                "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
                "advertised.listeners",
            )
        if end_point.listener_name not in listening:
            raise ConfigError(
                "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
                f"Found {','.join(end.listener_name for end in advertised)}. "
                f"The valid options based on the current configuration are {','.join(sorted(listening))}",
                "advertised.listeners",
            )
    return advertised


def protocol_map_of(config: ConfigValues) -> dict[str, str]:
    """Return the security protocol of each listener name. Raises ConfigError as `parse_protocol_map` does."""
    return parse_protocol_map(config.string("listener.security.protocol.map"))


def inter_broker_listener_name_of(config: ConfigValues) -> str:
    """Return the listener that brokers use among themselves: by name, or by security.inter.broker.protocol.

    Raises ConfigError: both are set, or the listener is not advertised.
    """
    name = config.optional_string("inter.broker.listener.name")
    if name is None:
        result = config.string("security.inter.broker.protocol")
    elif config.is_set("security.inter.broker.protocol"):
        raise ConfigError(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
            "inter.broker.listener.name",
        )
    else:
        result = name.upper()
    names = [end_point.listener_name for end_point in advertised_listeners_of(config)]
    if result not in names:
        raise ConfigError(
            f"inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(names)}",
            "inter.broker.listener.name",
        )
    return result


def controller_listener_name_of(config: ConfigValues) -> str:
    """Return the listener on which a broker hears the controller: the control plane's, or the brokers' own.

    Raises ConfigError as `inter_broker_listener_name_of` does.
    """
    control_plane = config.optional_string("control.plane.listener.name")
    return inter_broker_listener_name_of(config) if control_plane is None else control_plane.upper()


def early_start_listeners_of(config: ConfigValues) -> frozenset[str]:
    """Return the listeners that start before the authorizer is ready; none if early.start.listeners is not set.

    Raises ConfigError: a listener does not exist.
    """
    names = frozenset(name.upper() for name in _entries(config.optional_string("early.start.listeners") or ""))
    listening = {end_point.listener_name for end_point in listeners_of(config)}
    for name in sorted(names - listening):
        raise ConfigError(
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
            "controller.listener.names",
            "early.start.listeners",
        )
    return names


class ListenersConfig(Settings):
    """All listeners. listening: where. advertised: what clients are told. inter_broker: the name of the brokers' own.

    protocols: listener name -> security protocol, also of listeners that are not in use.
    """

    listening: tuple[EndPoint, ...] = computed(
        lambda config: tuple(listeners_of(config)), "listeners", "controller.listener.names"
    )
    advertised: tuple[EndPoint, ...] = computed(
        lambda config: tuple(advertised_listeners_of(config)), "advertised.listeners"
    )
    protocols: Mapping[str, str] = setting("listener.security.protocol.map", parse_protocol_map)
    inter_broker: str = computed(
        inter_broker_listener_name_of, "inter.broker.listener.name", "security.inter.broker.protocol"
    )


def _without_controllers(config: ConfigValues, end_points: list[EndPoint]) -> list[EndPoint]:
    """Leave out the listeners of a KRaft controller, which this process does not have. Kafka: dataPlaneListeners."""
    names = {name.upper() for name in _entries(config.optional_string("controller.listener.names") or "")}
    return [end_point for end_point in end_points if end_point.listener_name not in names]


def _parse_end_point(entry: str, protocol_map: Mapping[str, str], name: str) -> EndPoint:
    """Parse one end point. name: the setting, for messages. Raises ConfigError: it is malformed or has no protocol."""
    match = _URI.fullmatch(entry)
    if match is None:
        raise ConfigError(
            f"Unable to parse {entry} to a broker endpoint: {name} takes NAME://host:port, "
            f"for example PLAINTEXT://127.0.0.1:9092",
            name,
        )
    listener = match["name"].upper()
    port = int(match["port"])
    if not 0 <= port <= _PORT_MAX:
        raise ConfigError(f"Unable to parse {entry} to a broker endpoint: port {port} is not in [0, {_PORT_MAX}]", name)
    if listener not in protocol_map:
        raise ConfigError(
            f"Error creating broker listeners from '{entry}': No security protocol defined for listener {listener}; "
            f"listener.security.protocol.map has {', '.join(sorted(protocol_map))}",
            name,
        )
    return EndPoint(match["host"], port, listener, protocol_map[listener])


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
