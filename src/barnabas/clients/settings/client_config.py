"""The settings that every client has: Kafka's names with underscores, Kafka's defaults. Immutable.

Made by users and by the clients, on any thread. Kafka: CommonClientConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.clients.metadata.cluster_metadata import REBOOTSTRAP, MetadataConfig
from barnabas.clients.settings.connection_config import ClientConnectionConfig
from barnabas.clients.settings.notation import setting


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
