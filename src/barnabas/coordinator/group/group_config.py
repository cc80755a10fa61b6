"""What the group coordinator reads of the broker's configuration: a frozen snapshot.

Built by `broker`; read by any thread; never changed: Kafka 3.9 has no dynamic setting among them.
Kafka: GroupCoordinatorConfig, OffsetConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.protocol.kafka_releases import RELEASES
from barnabas.records.compression import Codec

_MILLISECONDS_PER_MINUTE = 60_000
_PROTOCOLS = "group.coordinator.rebalance.protocols"


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Settings of KIP-848's groups (`group.consumer.` and Kafka's names, dots for underscores)."""

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 5000
    min_heartbeat_interval_ms: int = 5000
    max_heartbeat_interval_ms: int = 15_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    is_enabled: bool = True
    regex_refresh_interval_ms: int = 600_000

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig) -> ConsumerGroupConfig:
        """Pick them out of the parsed file."""
        return cls(
            session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
            min_session_timeout_ms=config.integer("group.consumer.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.consumer.max.session.timeout.ms"),
            heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
            min_heartbeat_interval_ms=config.integer("group.consumer.min.heartbeat.interval.ms"),
            max_heartbeat_interval_ms=config.integer("group.consumer.max.heartbeat.interval.ms"),
            max_size=config.integer("group.consumer.max.size"),
            assignors=tuple(config.list("group.consumer.assignors")),
            migration_policy=config.string("group.consumer.migration.policy").lower(),
            is_enabled=_offers_consumer_groups(config),
        )


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Settings of groups and committed offsets.

    min_session_timeout_ms to max_size: of classic groups. max_metadata_size: characters beside a committed offset.
    retention_ms: how long offsets outlive their group or their commit. load_buffer_bytes: read at a time while loading.
    """

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    max_metadata_size: int = 4096
    retention_ms: int = 7 * 24 * 60 * _MILLISECONDS_PER_MINUTE
    retention_check_interval_ms: int = 600_000
    commit_timeout_ms: int = 5000
    commit_required_acks: int = -1
    codec: Codec = Codec.NONE
    load_buffer_bytes: int = 5 * 1024 * 1024
    num_partitions: int = 50
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig) -> GroupCoordinatorConfig:
        """Pick them out of the parsed file."""
        return cls(
            min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            max_size=config.integer("group.max.size"),
            max_metadata_size=config.integer("offset.metadata.max.bytes"),
            retention_ms=config.integer("offsets.retention.minutes") * _MILLISECONDS_PER_MINUTE,
            retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
            commit_timeout_ms=config.integer("offsets.commit.timeout.ms"),
            commit_required_acks=config.integer("offsets.commit.required.acks"),
            codec=_codec(config.integer("offsets.topic.compression.codec")),
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            num_partitions=config.integer("offsets.topic.num.partitions"),
            consumer=ConsumerGroupConfig.from_kafka_config(config),
        )


def _offers_consumer_groups(config: KafkaConfig) -> bool:
    """As the setting says. Not set, a broker that plays a release before 4.0 offers none, as that release does."""
    emulated = config.optional_string("broker.emulate.version")
    if emulated is not None and not config.is_set(_PROTOCOLS):
        return RELEASES.index(emulated) >= RELEASES.index("4.0")
    return "consumer" in config.list(_PROTOCOLS)


def _codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError:
        name = "offsets.topic.compression.codec"
        raise ConfigError(f"Unknown compression type id: {number}", name) from None
