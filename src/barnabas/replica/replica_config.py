"""The settings of the replica layer, and of a follower's fetches from leaders.

Made by `broker`, read by any thread; frozen, so no lock.
Kafka: what ReplicaManager and ReplicaFetcherThread read of KafkaConfig.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import METADATA_VERSIONS
from barnabas.config.setting import Settings, setting
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest

_FIRST_PROTOCOL_WITH_ALTER_PARTITION: Final = "2.7-IV2"
_FIRST_PROTOCOL_WITH_TOPIC_IDS: Final = "2.8-IV0"
_LAST_VERSION_WITH_TOPIC_NAMES: Final = 1


def alter_partition_version_of(inter_broker_protocol: str) -> int | None:
    """Return the latest AlterPartition that leaders send; None where they write to the store instead."""
    if not METADATA_VERSIONS.is_at_least(inter_broker_protocol, _FIRST_PROTOCOL_WITH_ALTER_PARTITION):
        return None
    if not METADATA_VERSIONS.is_at_least(inter_broker_protocol, _FIRST_PROTOCOL_WITH_TOPIC_IDS):
        return _LAST_VERSION_WITH_TOPIC_NAMES
    return AlterPartitionRequest.max_version


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
    alter_log_dirs_threads: int | None = setting("num.replica.alter.log.dirs.threads")
    alter_partition_version: int | None = setting("inter.broker.protocol.version", alter_partition_version_of)


class FetcherConfig(Settings):
    """Settings of a follower's fetches: sizes in bytes, times in milliseconds. fetchers: threads for each leader."""

    fetchers: int = setting("num.replica.fetchers")
    partition_max_bytes: int = setting("replica.fetch.max.bytes")
    response_max_bytes: int = setting("replica.fetch.response.max.bytes")
    min_bytes: int = setting("replica.fetch.min.bytes")
    wait_max_ms: int = setting("replica.fetch.wait.max.ms")
    backoff_ms: int = setting("replica.fetch.backoff.ms")
    socket_timeout_ms: int = setting("replica.socket.timeout.ms")
    socket_receive_buffer_bytes: int = setting("replica.socket.receive.buffer.bytes")
