"""The admin client: topics, partitions, settings, quotas and groups, and a description of the cluster.

Its methods stand in its parts, the modules beside this one. Any thread may call them, and waits for the answer. One
request at a time is in flight (`admin_calls`). Kafka: KafkaAdminClient.

    with Admin("localhost:9092") as admin:
        admin.create_topics([NewTopic("flights", num_partitions=4, replication_factor=1)])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from barnabas.clients.admin.acls import AdminAcls
from barnabas.clients.admin.admin_calls import AdminCalls
from barnabas.clients.admin.client_quotas import AdminClientQuotas
from barnabas.clients.admin.configs import AdminConfigs
from barnabas.clients.admin.delegation_tokens import AdminDelegationTokens
from barnabas.clients.admin.features import AdminFeatures
from barnabas.clients.admin.group_admin import AdminGroups
from barnabas.clients.admin.group_offsets import AdminGroupOffsets
from barnabas.clients.admin.partition_changes import AdminPartitions
from barnabas.clients.admin.records import AdminRecords
from barnabas.clients.admin.scram_credentials import AdminScramCredentials
from barnabas.clients.admin.topics import AdminTopics
from barnabas.clients.admin.transactions import AdminTransactions
from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.settings.client_config import ClientConfig


class Admin(
    AdminTopics,
    AdminPartitions,
    AdminFeatures,
    AdminScramCredentials,
    AdminClientQuotas,
    AdminAcls,
    AdminDelegationTokens,
    AdminGroups,
    AdminGroupOffsets,
    AdminConfigs,
    AdminRecords,
    AdminTransactions,
):
    """An admin client. `timeout_ms` bounds each call, retries included. A `config` has further settings."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "barnabas-admin",
        timeout_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        config: ClientConfig | None = None,
        client: BlockingClient | None = None,
    ) -> None:
        if config is None:
            config = ClientConfig(client_id=client_id, request_timeout_ms=request_timeout_ms)
        if client is None:
            client = BlockingClient(bootstrap_servers, config.network_config(client_id), config.metadata_config())
        self._calls = AdminCalls(client, timeout_ms)
        self._client_id = config.client_id or client_id

    def metrics(self) -> dict[MetricName, float]:
        """Return what this client has measured of its connections, by Kafka's names; not a number without a value."""
        return self._calls.metrics(self._client_id)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()
