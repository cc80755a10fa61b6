"""The settings of the network layer: one frozen snapshot with a part for each listener, and canonical addresses.

Made by `broker/` from the parsed settings, again whenever they change. A limit and the connections it is meant for are
compared by the canonical text of an IP address, which ConnectionQuotas needs too. A look-up of a host's name may block.

Kafka: SocketServerConfigs, and valuesWithPrefixOverride of its configurations; InetAddress.getByName.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Self

from barnabas.config.broker_config_keys import LISTENER_PREFIX
from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import early_start_listeners_of
from barnabas.config.setting import Settings, computed, setting

MAPPED_IPV4: Final = "::ffff:"
"""The prefix of an IPv4 address on a socket that listens to both families."""

LARGE_LISTEN_BACKLOG = 1024
"""The backlog unless `socket.listen.backlog.size` is given; the kernel caps it at net.core.somaxconn. Kafka's default
of 50 drops the SYNs of clients that connect together, and they retry after a second: 500 connections took 8 to 9 s, and
take 0.06 s with this one."""

SYSTEM_BUFFER = -1
"""Leave a socket's buffer to the kernel, which sizes it by need. Kafka's default of 102400 bytes switches that off: a
1 MB request then takes eight receives instead of two, a fetch as many sends (measured: 1 MB produces are 1.4 times as
fast without, 100 KB 1.9 times). So a size is set only if the configuration gives one."""

UNLIMITED = 2_147_483_647


def canonical_address(text: str) -> str:
    """Return an address as accepted connections show it. Raises ValueError when `text` is no address."""
    return str(ipaddress.ip_address(text.strip().removeprefix(MAPPED_IPV4)))


def _addresses_of(host: str) -> list[str]:
    """Return the addresses of a host, which may be an address already. Raises OSError for an unknown name."""
    try:
        return [canonical_address(host)]
    except ValueError:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]


def _buffer_bytes(name: str) -> Callable[[ConfigValues], int]:
    return lambda config: config.integer(name) if config.is_set(name) else SYSTEM_BUFFER


def _listen_backlog(config: ConfigValues) -> int:
    backlog = config.integer("socket.listen.backlog.size")
    return backlog if config.is_set("socket.listen.backlog.size") else max(backlog, LARGE_LISTEN_BACKLOG)


def _address_limits(text: str | None) -> dict[str, int]:
    """Return the limit of each address that `host:count,host:count` names. A name stands for all its addresses.

    Raises ConfigError: an entry has another form, or its host is not known.
    """
    name = "max.connections.per.ip.overrides"
    result: dict[str, int] = {}
    for entry in (text or "").split(","):
        if not entry.strip():
            continue
        host, _, count = entry.strip().rpartition(":")  # an IPv6 address has colons of its own
        if not host or not count.isdigit():
            raise ConfigError(f"{name}: {entry!r} is not of the form host:count", name)
        try:
            addresses = _addresses_of(host.strip("[]"))
        except OSError as error:
            raise ConfigError(f"{name}: the host {host} is not known: {error}", name) from error
        result.update(dict.fromkeys(addresses, int(count)))
    return result


def _listener_name(name: str | None) -> str | None:
    return name and name.upper()


class ListenerConfig(Settings):
    """The settings that a listener may override, as listener.name.<listener>.<setting>.

    Kafka reads the first three settings there, and those of security; Barnabas reads the others there too.
    """

    network_threads: int = setting("num.network.threads")
    max_connections: int = setting("max.connections")
    max_connection_creation_rate: int = setting("max.connection.creation.rate")
    send_buffer_bytes: int = computed(_buffer_bytes("socket.send.buffer.bytes"), "socket.send.buffer.bytes")
    receive_buffer_bytes: int = computed(_buffer_bytes("socket.receive.buffer.bytes"), "socket.receive.buffer.bytes")
    request_max_bytes: int = setting("socket.request.max.bytes")
    listen_backlog: int = computed(_listen_backlog, "socket.listen.backlog.size")
    max_idle_ms: int = setting("connections.max.idle.ms")


class NetworkConfig(Settings):
    """The network layer's settings: sizes in bytes, times in milliseconds, Kafka's defaults unless documented here."""

    broker_id: int = setting("broker.id")
    """Replaced by the composition root where the id was generated."""
    max_connections: int = setting("max.connections")
    max_connections_per_ip: int = setting("max.connections.per.ip")
    max_connections_per_ip_overrides: Mapping[str, int] = setting("max.connections.per.ip.overrides", _address_limits)
    max_connection_creation_rate: int = setting("max.connection.creation.rate")
    quota_samples: int = setting("quota.window.num")
    """The rates of new connections are measured over this many windows of `quota_window_ms`."""
    quota_window_ms: int = setting("quota.window.size.seconds", lambda seconds: seconds * 1000)
    queued_max_requests: int = setting("queued.max.requests")
    queued_max_request_bytes: int = setting("queued.max.request.bytes")
    """The memory that clients' frames and unsent answers may take; zero and less: no limit."""
    failed_authentication_delay_ms: int = setting("connection.failed.authentication.delay.ms")
    inline_requests: bool = setting("inline.requests.enable")
    """Whether brief requests run at once on the Processor's thread (a setting of Barnabas's own)."""
    inter_broker_listener: str | None = None
    """The brokers' listener: its Acceptor starts before the others, and it is exempt from `max.connections`.

    None: there is only one listener.
    """
    control_plane_listener: str | None = setting("control.plane.listener.name", _listener_name)
    """The controller's listener, with threads of its own; None: the controller uses the inter-broker listener."""
    early_start_listeners: frozenset[str] = computed(early_start_listeners_of, "early.start.listeners", "listeners")
    """Listeners that start together with the controller's, before the broker is ready for clients."""
    any_listener: ListenerConfig = field(default_factory=ListenerConfig)
    listeners: Mapping[str, ListenerConfig] = field(default_factory=dict)

    @classmethod
    def from_kafka_config(cls, config: ConfigValues, **given: object) -> Self:
        """Read the settings of all listeners, and of each that has some of its own.

        Raises ConfigError: an override of max.connections.per.ip is malformed, or a listener does not exist.
        """
        names = {key.split(".")[2] for key in config.originals if key.startswith(LISTENER_PREFIX)}
        return super().from_kafka_config(
            config,
            any_listener=ListenerConfig.from_kafka_config(config),
            listeners={name.upper(): ListenerConfig.from_kafka_config(config.of_listener(name)) for name in names},
            **given,
        )

    @property
    def largest_request_bytes(self) -> int:
        """The largest `socket.request.max.bytes` of all listeners."""
        return max(listener.request_max_bytes for listener in (self.any_listener, *self.listeners.values()))

    def for_listener(self, listener_name: str) -> ListenerConfig:
        """Return the settings of a listener: its own, or those of `any_listener`."""
        return self.listeners.get(listener_name, self.any_listener)
