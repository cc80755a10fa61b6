"""What the replica layer reads of the broker's configuration: a frozen snapshot, replaced as a whole.

Built by `broker`; read by any thread; never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.kafka_config import KafkaConfig


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """Settings of the replica layer (Kafka's names, dots for underscores)."""

    broker_id: int
    high_watermark_checkpoint_interval_ms: int = 5000
    fetch_purgatory_purge_interval_requests: int = 1000
    producer_purgatory_purge_interval_requests: int = 1000
    delete_records_purgatory_purge_interval_requests: int = 1
    replica_lag_time_max_ms: int = 30_000

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig, broker_id: int) -> ReplicaConfig:
        """Pick the replica layer's settings out of the parsed file."""
        return cls(
            broker_id=broker_id,
            high_watermark_checkpoint_interval_ms=config.integer("replica.high.watermark.checkpoint.interval.ms"),
            fetch_purgatory_purge_interval_requests=config.integer("fetch.purgatory.purge.interval.requests"),
            producer_purgatory_purge_interval_requests=config.integer("producer.purgatory.purge.interval.requests"),
            delete_records_purgatory_purge_interval_requests=config.integer(
                "delete.records.purgatory.purge.interval.requests"
            ),
            replica_lag_time_max_ms=config.integer("replica.lag.time.max.ms"),
        )
