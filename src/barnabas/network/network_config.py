"""What the network layer needs of the configuration: one frozen snapshot, and one part of it for each listener.

Made by `broker/` from the parsed settings, again whenever they change. Kafka: SocketServerConfigs, and
valuesWithPrefixOverride of its configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import LISTENER_PREFIX
from barnabas.config.listeners import early_start_listeners_of
from barnabas.network.ip_address import addresses_of

if TYPE_CHECKING:
    from barnabas.config.kafka_config import KafkaConfig

LARGE_LISTEN_BACKLOG = 1024
"""Kafka's default of 50 drops the SYNs of clients that connect together, and they retry after a second: 500
connections took 8 to 9 s. Unless `socket.listen.backlog.size` is given we ask for this; the kernel caps it at
net.core.somaxconn. Measured in research: 0.06 s."""


SYSTEM_BUFFER = -1
"""Leave a socket's buffer to the kernel, which sizes it by need. Kafka's default of 102400 bytes switches that off: a
1 MB request then takes eight receives instead of two (produce 1 MB: 0.9 -> 1.26 of the prototype's throughput, 100 KB:
0.65 -> 1.22, in one run), a fetch as many sends. So a size is set only if the configuration gives one."""


UNLIMITED = 2_147_483_647


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """The settings a listener may have of its own, as listener.name.<listener>.<setting>.

    Kafka looks for the first three there, and for those of security; the others are ours.
    """

    network_threads: int = 1
    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED
    send_buffer_bytes: int = SYSTEM_BUFFER
    receive_buffer_bytes: int = SYSTEM_BUFFER
    request_max_bytes: int = 104_857_600
    listen_backlog: int = LARGE_LISTEN_BACKLOG
    max_idle_ms: int = 600_000

    @classmethod
    def of(cls, config: KafkaConfig, listener_name: str) -> ListenerConfig:
        """The settings of one listener: its own, else those of all."""

        def integer(name: str) -> int:
            value = config.for_listener(listener_name, name)
            return value if isinstance(value, int) else config.integer(name)

        def is_set(name: str) -> bool:
            return config.is_set(name) or config.is_set(f"{LISTENER_PREFIX}{listener_name.lower()}.{name}")

        backlog = integer("socket.listen.backlog.size")
        return cls(
            network_threads=integer("num.network.threads"),
            max_connections=integer("max.connections"),
            max_connection_creation_rate=integer("max.connection.creation.rate"),
            send_buffer_bytes=_buffer_bytes("socket.send.buffer.bytes", integer, is_set),
            receive_buffer_bytes=_buffer_bytes("socket.receive.buffer.bytes", integer, is_set),
            request_max_bytes=integer("socket.request.max.bytes"),
            listen_backlog=backlog if is_set("socket.listen.backlog.size") else max(backlog, LARGE_LISTEN_BACKLOG),
            max_idle_ms=integer("connections.max.idle.ms"),
        )


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Sizes in bytes, times in milliseconds; the defaults are Kafka's but for those documented here."""

    broker_id: int = 0
    handler_threads: int = 8
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = UNLIMITED
    quota_samples: int = 11
    quota_window_ms: int = 1000
    """Of the rates of new connections: so many windows of this length are looked at."""
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    """What clients' frames and unsent answers may take in memory; zero and less: no limit."""
    failed_authentication_delay_ms: int = 100
    inline_requests: bool = True
    """Brief requests run at once on the Processor's thread (ours: `inline.requests.enable`)."""
    inter_broker_listener: str | None = None
    """Its acceptor starts before the others and it is exempt from `max.connections`; None: there is only one."""
    control_plane_listener: str | None = None
    """The controller's own, served by threads of its own; None: its requests come by the inter-broker listener."""
    early_start_listeners: frozenset[str] = frozenset()
    """Read as soon as the controller's requests are, before the broker is ready; their requests wait for that."""
    any_listener: ListenerConfig = ListenerConfig()
    listeners: Mapping[str, ListenerConfig] = field(default_factory=dict)

    @property
    def largest_request_bytes(self) -> int:
        """Of any listener."""
        return max(listener.request_max_bytes for listener in (self.any_listener, *self.listeners.values()))

    def for_listener(self, listener_name: str) -> ListenerConfig:
        """The settings of a listener, which has its own or those of all."""
        return self.listeners.get(listener_name, self.any_listener)

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig, inter_broker_listener: str | None = None) -> NetworkConfig:
        """Pick the settings of this layer. Raises ConfigError for malformed overrides."""
        names = {key.split(".")[2] for key in config.originals if key.startswith(LISTENER_PREFIX)}
        control_plane_listener = config.optional_string("control.plane.listener.name")
        return cls(
            broker_id=config.integer("broker.id"),
            handler_threads=config.integer("num.io.threads"),
            max_connections=config.integer("max.connections"),
            max_connections_per_ip=config.integer("max.connections.per.ip"),
            max_connections_per_ip_overrides=_overrides(config.optional_string("max.connections.per.ip.overrides")),
            max_connection_creation_rate=config.integer("max.connection.creation.rate"),
            quota_samples=config.integer("quota.window.num"),
            quota_window_ms=config.integer("quota.window.size.seconds") * 1000,
            queued_max_requests=config.integer("queued.max.requests"),
            queued_max_request_bytes=config.integer("queued.max.request.bytes"),
            failed_authentication_delay_ms=config.integer("connection.failed.authentication.delay.ms"),
            inline_requests=config.boolean("inline.requests.enable"),
            inter_broker_listener=inter_broker_listener,
            control_plane_listener=control_plane_listener and control_plane_listener.upper(),
            early_start_listeners=early_start_listeners_of(config),
            any_listener=ListenerConfig.of(config, ""),
            listeners={name.upper(): ListenerConfig.of(config, name) for name in names},
        )


def _buffer_bytes(name: str, integer: Callable[[str], int], is_set: Callable[[str], bool]) -> int:
    return integer(name) if is_set(name) else SYSTEM_BUFFER


def _overrides(text: str | None) -> dict[str, int]:
    """`host:count,host:count`; an IPv6 address has colons of its own. A name counts for all its addresses."""
    name = "max.connections.per.ip.overrides"
    result: dict[str, int] = {}
    for entry in (text or "").split(","):
        if not entry.strip():
            continue
        host, _, count = entry.strip().rpartition(":")
        if not host or not count.isdigit():
            raise ConfigError(f"{name}: {entry!r} is not of the form host:count", name)
        try:
            addresses = addresses_of(host.strip("[]"))
        except OSError as error:
            raise ConfigError(f"{name}: the host {host} is not known: {error}", name) from error
        result.update(dict.fromkeys(addresses, int(count)))
    return result
