"""The settings that the replica layer reads.

Made by `broker`, read by any thread; frozen, so no lock. Kafka: the part of KafkaConfig that ReplicaManager reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting


@dataclass(frozen=True, slots=True)
class ReplicaConfig(Settings):
    """Settings of the replica layer. broker_id: given by the caller, since it may have been generated."""

    broker_id: int
    high_watermark_checkpoint_interval_ms: int = setting("replica.high.watermark.checkpoint.interval.ms")
    fetch_purgatory_purge_interval_requests: int = setting("fetch.purgatory.purge.interval.requests")
    producer_purgatory_purge_interval_requests: int = setting("producer.purgatory.purge.interval.requests")
    delete_records_purgatory_purge_interval_requests: int = setting("delete.records.purgatory.purge.interval.requests")
    transaction_max_timeout_ms: int = setting("transaction.max.timeout.ms")
    replica_lag_time_max_ms: int = setting("replica.lag.time.max.ms")
    replica_selector_class: str | None = setting("replica.selector.class")
