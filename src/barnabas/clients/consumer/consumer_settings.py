"""The keyword arguments of `Consumer`, made from ConsumerConfig by `make docs`: change that one."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.consumer_config import ConsumerInterceptor
from barnabas.clients.consumer.deserializers import Deserializer
from barnabas.clients.settings.client_settings import ClientSettings


class ConsumerSettings(ClientSettings, total=False):
    """The keyword arguments of `Consumer`; ConsumerConfig has their meaning and defaults."""

    group_protocol: str
    group_remote_assignor: str | None
    client_rack: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_commit_interval_ms: int
    group_id: str | None
    partition_assignment_strategy: Sequence[str | PartitionAssignor]
    enable_auto_commit: bool | None
    auto_offset_reset: str
    isolation_level: str
    exclude_internal_topics: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    check_crcs: bool
    key_deserializer: str | Deserializer
    value_deserializer: str | Deserializer
    interceptor_classes: Sequence[ConsumerInterceptor]
    default_api_timeout_ms: int
    allow_auto_create_topics: bool
    enable_metrics_push: bool
