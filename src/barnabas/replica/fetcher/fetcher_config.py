"""The settings of a follower's fetches.

Made by `broker`, read by any thread; frozen, so no lock. Kafka: what ReplicaFetcherThread reads of KafkaConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting


@dataclass(frozen=True, slots=True)
class FetcherConfig(Settings):
    """Sizes in bytes, times in milliseconds. fetchers: the threads for each leader."""

    fetchers: int = setting("num.replica.fetchers")
    partition_max_bytes: int = setting("replica.fetch.max.bytes")
    response_max_bytes: int = setting("replica.fetch.response.max.bytes")
    min_bytes: int = setting("replica.fetch.min.bytes")
    wait_max_ms: int = setting("replica.fetch.wait.max.ms")
    backoff_ms: int = setting("replica.fetch.backoff.ms")
    socket_timeout_ms: int = setting("replica.socket.timeout.ms")
    socket_receive_buffer_bytes: int = setting("replica.socket.receive.buffer.bytes")
