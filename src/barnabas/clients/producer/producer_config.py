"""Settings of the producer: Kafka's names with underscores, Kafka's defaults. Immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from barnabas.records.compression import Codec

_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


class ProducerSettings(TypedDict, total=False):
    """What `Producer(...)` takes by name; see ProducerConfig."""

    client_id: str
    acks: int | Literal["all"]
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: str
    compression_level: int | None
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_in_flight_requests_per_connection: int
    enable_idempotence: bool
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    partitioner_ignore_keys: bool


@dataclass(frozen=True, kw_only=True)
class ProducerConfig:
    """Sizes are bytes, times milliseconds. Raises ValueError, with Kafka's text, for settings that cannot go together.

    `acks`: "all" (or -1), 1 or 0. `enable_idempotence` is off unless asked for. `delivery_timeout_ms` covers everything
    from `send` to the answer, retries included, and must be at least `request_timeout_ms + linger_ms`.
    """

    client_id: str = ""
    acks: int | Literal["all"] = "all"
    linger_ms: int = 0
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    compression_type: str = "none"
    compression_level: int | None = None
    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    max_in_flight_requests_per_connection: int = 5
    enable_idempotence: bool = False
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    partitioner_ignore_keys: bool = False

    def __post_init__(self) -> None:
        """Check what no type can say."""
        if str(self.acks) not in _ACKS:
            raise ValueError(f"acks must be 'all', 0 or 1, not {self.acks!r}")
        Codec.from_name(self.compression_type)
        for name in ("batch_size", "linger_ms", "max_block_ms", "retries", "retry_backoff_ms", "request_timeout_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        for name in ("buffer_memory", "max_request_size", "max_in_flight_requests_per_connection"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.delivery_timeout_ms < self.request_timeout_ms + self.linger_ms:
            raise ValueError("delivery_timeout_ms should be equal to or larger than linger_ms + request_timeout_ms")
        if self.enable_idempotence:
            if self.acks_number != -1:
                raise ValueError("Must set acks to all in order to use the idempotent producer.")
            if self.retries == 0:
                raise ValueError("Must set retries to non-zero when using the idempotent producer.")
            if self.max_in_flight_requests_per_connection > 5:
                raise ValueError(
                    "Must set max_in_flight_requests_per_connection to at most 5 to use the idempotent producer."
                )

    @property
    def acks_number(self) -> int:
        """-1, 0 or 1."""
        return _ACKS[str(self.acks)]

    @property
    def codec(self) -> Codec:
        """The codec that `compression_type` names."""
        return Codec.from_name(self.compression_type)
