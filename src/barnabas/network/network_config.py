"""What the network layer needs of the configuration: one frozen snapshot.

Made by `broker/` from the parsed file. Kafka: SocketServerConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Sizes in bytes, times in milliseconds; the defaults are Kafka's but for those documented here."""

    broker_id: int = 0
    network_threads: int = 1
    handler_threads: int = 8
    send_buffer_bytes: int = SYSTEM_BUFFER
    receive_buffer_bytes: int = SYSTEM_BUFFER
    request_max_bytes: int = 104_857_600
    listen_backlog: int = LARGE_LISTEN_BACKLOG
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_ms: int = 600_000
    queued_max_requests: int = 500
    inline_requests: bool = True
    """Brief requests run at once on the Processor's thread (ours: `inline.requests.enable`)."""
    inter_broker_listener: str | None = None
    """Its acceptor starts first and it is exempt from `max.connections`; None: the only listener there is."""

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig, inter_broker_listener: str | None = None) -> NetworkConfig:
        """Pick the settings of this layer. Raises ConfigError for malformed overrides."""
        backlog = config.integer("socket.listen.backlog.size")
        if not config.is_set("socket.listen.backlog.size"):
            backlog = max(backlog, LARGE_LISTEN_BACKLOG)
        return cls(
            broker_id=config.integer("broker.id"),
            network_threads=config.integer("num.network.threads"),
            handler_threads=config.integer("num.io.threads"),
            send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
            receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
            request_max_bytes=config.integer("socket.request.max.bytes"),
            listen_backlog=backlog,
            max_connections=config.integer("max.connections"),
            max_connections_per_ip=config.integer("max.connections.per.ip"),
            max_connections_per_ip_overrides=_overrides(config.optional_string("max.connections.per.ip.overrides")),
            max_idle_ms=config.integer("connections.max.idle.ms"),
            queued_max_requests=config.integer("queued.max.requests"),
            inline_requests=config.boolean("inline.requests.enable"),
            inter_broker_listener=inter_broker_listener,
        )


def _buffer_bytes(config: KafkaConfig, name: str) -> int:
    return config.integer(name) if config.is_set(name) else SYSTEM_BUFFER


def _overrides(text: str | None) -> dict[str, int]:
    """`host:count,host:count`; an IPv6 address has colons of its own."""
    from barnabas.config.config_error import ConfigError  # noqa: PLC0415 - for the one error only

    name = "max.connections.per.ip.overrides"
    result: dict[str, int] = {}
    for entry in (text or "").split(","):
        if not entry.strip():
            continue
        host, _, count = entry.strip().rpartition(":")
        if not host or not count.isdigit():
            raise ConfigError(f"{name}: {entry!r} is not of the form host:count", name)
        result[host] = int(count)
    return result
