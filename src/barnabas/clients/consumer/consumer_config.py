"""Settings of the consumer: Kafka's names with underscores, Kafka's defaults. Immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict


class ConsumerSettings(TypedDict, total=False):
    """What `Consumer(...)` takes by name; see ConsumerConfig."""

    client_id: str
    auto_offset_reset: Literal["earliest", "latest", "none"]
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
    """Sizes are bytes, times milliseconds. `auto_offset_reset`: where to begin without a position, or a valid one."""

    client_id: str = ""
    auto_offset_reset: Literal["earliest", "latest", "none"] = "latest"
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

    def __post_init__(self) -> None:
        """Check what no type can say."""
        if self.auto_offset_reset not in {"earliest", "latest", "none"}:
            raise ValueError(f"auto_offset_reset must be earliest, latest or none, not {self.auto_offset_reset!r}")
        for name in ("fetch_max_bytes", "max_partition_fetch_bytes", "max_poll_records"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
