"""The settings that every client has: Kafka's names with underscores, Kafka's defaults. Immutable.

Made by users and by the clients, on any thread; no lock. Kafka: CommonClientConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from barnabas.clients.metadata.cluster_metadata import (
    REBOOTSTRAP,
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
    USE_ALL_DNS_IPS,
    MetadataConfig,
)
from barnabas.clients.settings.client_security import channel_builder, check_security
from barnabas.clients.settings.notation import check_names, check_values, setting
from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.rpc.network_client_config import NetworkClientConfig

_MAX_IN_FLIGHT = 100


@dataclass(frozen=True, kw_only=True)
class ClientConnectionConfig(ClientSecurityConfig):
    """The settings of the connections of one client: set-up, security, sockets, requests. Times are milliseconds.

    `network_config` returns them in the form that NetworkClient takes. Raises TypeError for a name that is no setting
    and for a value of a wrong type, ValueError for one out of bounds.
    """

    client_id: str = setting("", "The client's name in the broker's logs, metrics and quotas.")
    request_timeout_ms: int = setting(30_000, "How long a broker may take to answer one request.", minimum=0)
    reconnect_backoff_ms: int = setting(
        50, "How long to wait before connecting again to the same broker.", minimum=0, importance="low"
    )
    reconnect_backoff_max_ms: int = setting(
        1_000, "The longest wait before connecting; it doubles to here.", minimum=0, importance="low"
    )
    socket_connection_setup_timeout_ms: int = setting(
        10_000, "How long the first attempt to connect to a broker may take.", minimum=1
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        30_000,
        "The longest time that an attempt to connect may take: the time doubles with each failed attempt in a row, more"
        " or less by up to 20 % (KIP-601).",
        minimum=1,
    )
    connections_max_idle_ms: int = setting(
        540_000, "How long a connection may be idle before the client closes it; -1 is for ever.", minimum=-1
    )
    send_buffer_bytes: int = setting(
        131_072, "The size of the socket's send buffer; -1 is the system's, which grows.", minimum=-1
    )
    receive_buffer_bytes: int = setting(
        65_536, "The size of the socket's receive buffer; -1 is the system's, which grows.", minimum=-1
    )
    client_dns_lookup: str = setting(
        USE_ALL_DNS_IPS,
        "use_all_dns_ips: the addresses of a name are tried in turn. resolve_canonical_bootstrap_servers_only: first,"
        " each bootstrap server is replaced by the canonical names of its addresses.",
        choices=(USE_ALL_DNS_IPS, RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY),
    )

    def __new__(cls, *_args: Any, **given: Any) -> Self:
        """Check the names before Python does, whose error would not name the nearest. Raises TypeError."""
        check_names(cls, given)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check the values. Raises TypeError, ValueError."""
        self.hide_secrets()
        check_values(self)
        check_security(self)

    def network_config(self, default_client_id: str = "", max_in_flight: int = _MAX_IN_FLIGHT) -> NetworkClientConfig:
        """Return the settings of the connections. Reads key and trust stores, if there are any.

        Raises ConfigError, a ValueError: such a store is missing or cannot be used.
        """
        client_id = self.client_id or default_client_id
        return NetworkClientConfig(
            client_id=client_id,
            max_in_flight=max_in_flight,
            request_timeout_ms=self.request_timeout_ms,
            reconnect_backoff_ms=self.reconnect_backoff_ms,
            reconnect_backoff_max_ms=self.reconnect_backoff_max_ms,
            connection_setup_timeout_ms=self.socket_connection_setup_timeout_ms,
            connection_setup_timeout_max_ms=self.socket_connection_setup_timeout_max_ms,
            connections_max_idle_ms=self.connections_max_idle_ms,
            send_buffer_bytes=self.send_buffer_bytes,
            receive_buffer_bytes=self.receive_buffer_bytes,
            channel_builder=channel_builder(self, client_id),
        )


@dataclass(frozen=True, kw_only=True)
class ClientConfig(ClientConnectionConfig):
    """The settings of a client: its connections, its retries and its view of the cluster. Times are milliseconds.

    Raises TypeError for a name that is no setting and for a value of a wrong type, ValueError for one out of bounds.
    """

    metadata_max_age_ms: int = setting(
        300_000, "How old the client's view of the cluster may grow.", minimum=0, importance="low"
    )
    metadata_recovery_strategy: str = setting(
        REBOOTSTRAP,
        "rebootstrap: a client that can reach no known broker begins again with its bootstrap servers (KIP-899). none:"
        " it goes on with the brokers that it knows.",
        choices=(REBOOTSTRAP, "none"),
        importance="low",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000,
        "How long the client may get no metadata before it closes its connections and begins again with its bootstrap"
        " servers (KIP-1102).",
        minimum=0,
        importance="low",
    )
    retry_backoff_ms: int = setting(
        100, "How long to wait before the first retry of a failed request.", minimum=0, importance="low"
    )
    retry_backoff_max_ms: int = setting(
        1_000, "The longest wait before a retry; it doubles up to here.", minimum=0, importance="low"
    )
    bootstrap_timeout_ms: int | None = setting(
        None,
        "How long a new client may find no broker before its calls raise `Unreachable`. None: as long as each call"
        " waits. Not a setting of Kafka's.",
        minimum=1,
    )

    def metadata_config(
        self, *, topic_idle_ms: int | None = None, allow_auto_topic_creation: bool = False
    ) -> MetadataConfig:
        """Return the settings of the client's view of the cluster."""
        return MetadataConfig(
            max_age_ms=self.metadata_max_age_ms,
            topic_idle_ms=topic_idle_ms,
            refresh_backoff_ms=self.retry_backoff_ms,
            refresh_backoff_max_ms=self.retry_backoff_max_ms,
            allow_auto_topic_creation=allow_auto_topic_creation,
            bootstrap_timeout_ms=self.bootstrap_timeout_ms,
            client_dns_lookup=self.client_dns_lookup,
            recovery_strategy=self.metadata_recovery_strategy,
            rebootstrap_trigger_ms=self.metadata_recovery_rebootstrap_trigger_ms,
        )
