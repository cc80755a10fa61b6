"""Settings of the consumer: Kafka's names with underscores, Kafka's defaults. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.group.config import GroupConfig
from barnabas.clients.consumer.offset_reset import parse_offset_reset

READ_COMMITTED = 1
_ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": READ_COMMITTED}
_POSITIVE = (
    "fetch_max_bytes",
    "max_partition_fetch_bytes",
    "max_poll_records",
    "session_timeout_ms",
    "max_poll_interval_ms",
    "auto_commit_interval_ms",
)


class ConsumerSettings(TypedDict, total=False):
    """What `Consumer(...)` takes by name; see ConsumerConfig."""

    client_id: str
    client_rack: str
    group_id: str | None
    group_instance_id: str | None
    partition_assignment_strategy: Sequence[str | PartitionAssignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    exclude_internal_topics: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    check_crcs: bool
    request_timeout_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    allow_auto_create_topics: bool


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig:
    """Sizes are bytes, times milliseconds. Raises ValueError for settings that cannot be, or not together.

    `auto_offset_reset`: where to begin without a position, or a valid one: earliest, latest, none, or by_duration:PT1H.
    `enable_auto_commit` None: if there is a group. `partition_assignment_strategy`: range, roundrobin, sticky and
    cooperative-sticky by name, or assignors of your own; the group uses the first that all its members know.
    `isolation_level`: read_uncommitted, or read_committed, which leaves out what transactions have aborted.
    """

    client_id: str = ""
    client_rack: str = ""
    group_id: str | None = None
    group_instance_id: str | None = None
    partition_assignment_strategy: Sequence[str | PartitionAssignor] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool | None = None
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    exclude_internal_topics: bool = True
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_records: int = 500
    check_crcs: bool = True
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    allow_auto_create_topics: bool = True

    @property
    def isolation(self) -> int:
        """The isolation level as requests have it."""
        return _ISOLATION_LEVELS[self.isolation_level]

    def __post_init__(self) -> None:
        """Check what no type can say."""
        parse_offset_reset(self.auto_offset_reset)
        if self.isolation_level not in _ISOLATION_LEVELS:
            raise ValueError("isolation_level must be read_uncommitted or read_committed")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be set lower than the session timeout")
        if self.group_id == "":
            raise ValueError("The configured group_id should not be an empty string or whitespace.")
        if self.group_instance_id == "":
            raise ValueError("group_instance_id must not be empty")
        if self.group_id is None and self.enable_auto_commit:
            raise ValueError("enable_auto_commit cannot be set to true when the default group id is used")

    def group_config(self) -> GroupConfig | None:
        """What the group machinery reads; None without a group."""
        if self.group_id is None:
            return None
        return GroupConfig(
            group_id=self.group_id,
            group_instance_id=self.group_instance_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            enable_auto_commit=self.enable_auto_commit is not False,
            auto_commit_interval_ms=self.auto_commit_interval_ms,
            client_rack=self.client_rack,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
        )
