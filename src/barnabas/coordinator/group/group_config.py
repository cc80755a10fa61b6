"""The settings of the group coordinator: a frozen snapshot of the broker's configuration.

Read at the start, when a wrong one stops the broker, and by every service, on any thread. Kafka 3.9 has no dynamic
setting among them. Kafka: GroupCoordinatorConfig, OffsetConfig.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Self

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.setting import Settings, computed, setting
from barnabas.protocol.kafka_releases import RELEASES
from barnabas.records.compression import Codec

if TYPE_CHECKING:
    from barnabas.coordinator.runtime.coordinator_log import AppendTerms

_MILLISECONDS_PER_MINUTE = 60_000
_REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols"


def _offers_consumer_groups(config: ConfigValues) -> bool:
    """Return whether the broker offers groups of KIP-848.

    A broker that emulates a release before 4.0 offers none unless the setting is given, as that release does.
    """
    emulated = config.optional_string("broker.emulate.version")
    if emulated is not None and not config.is_set(_REBALANCE_PROTOCOLS):
        return RELEASES.index(emulated) >= RELEASES.index("4.0")
    return "consumer" in config.list(_REBALANCE_PROTOCOLS)


def _codec(number: int) -> Codec:
    """Return the codec. Raises ConfigError when no codec has this number."""
    try:
        return Codec(number)
    except ValueError:
        name = "offsets.topic.compression.codec"
        raise ConfigError(f"Unknown compression type id: {number}", name) from None


def _in_milliseconds(minutes: int) -> int:
    return minutes * _MILLISECONDS_PER_MINUTE


class ConsumerGroupConfig(Settings):
    """Settings of KIP-848's groups (`group.consumer.` and Kafka's names, dots for underscores).

    The bounds of the session timeout and the heartbeat interval (`group.consumer.min.*`, `group.consumer.max.*`) act
    when the broker starts: `config.cross_checks` compares them with these values. Kafka has a second use for them, the
    settings of single groups, which a ZooKeeper cluster refuses, here as there.
    """

    session_timeout_ms: int = setting("group.consumer.session.timeout.ms")
    heartbeat_interval_ms: int = setting("group.consumer.heartbeat.interval.ms")
    max_size: int = setting("group.consumer.max.size")
    assignors: tuple[str, ...] = setting("group.consumer.assignors")
    migration_policy: str = setting("group.consumer.migration.policy", str.lower)
    is_enabled: bool = computed(_offers_consumer_groups, _REBALANCE_PROTOCOLS, "broker.emulate.version")
    # The default of Kafka 4's group.consumer.regex.refresh.interval.ms. Kafka 3.9 has no such setting.
    regex_refresh_interval_ms: int = 600_000


class GroupCoordinatorConfig(Settings):
    """Settings of groups and committed offsets.

    min_session_timeout_ms to max_size: of classic groups. max_metadata_size: characters of metadata with a committed
    offset. retention_ms: how long offsets are kept without members, or after their commit. load_buffer_bytes: the size
    of a read while loading.
    """

    min_session_timeout_ms: int = setting("group.min.session.timeout.ms")
    max_session_timeout_ms: int = setting("group.max.session.timeout.ms")
    initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms")
    max_size: int = setting("group.max.size")
    max_metadata_size: int = setting("offset.metadata.max.bytes")
    retention_ms: int = setting("offsets.retention.minutes", _in_milliseconds)
    retention_check_interval_ms: int = setting("offsets.retention.check.interval.ms")
    commit_timeout_ms: int = setting("offsets.commit.timeout.ms")
    commit_required_acks: int = setting("offsets.commit.required.acks")
    codec: Codec = setting("offsets.topic.compression.codec", _codec)
    load_buffer_bytes: int = setting("offsets.load.buffer.size")
    num_partitions: int = setting("offsets.topic.num.partitions")
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)

    @property
    def append_terms(self) -> AppendTerms:
        """How records are appended to the topic. Asked for when the coordinator is built, with what appends."""
        from barnabas.coordinator.runtime.coordinator_log import AppendTerms  # noqa: PLC0415

        return AppendTerms(self.codec, self.commit_required_acks, self.commit_timeout_ms)

    @classmethod
    def from_kafka_config(cls, config: ConfigValues, **given: object) -> Self:
        """Read the settings of all groups. Raises ConfigError when the codec of the offsets' topic is unknown."""
        consumer = ConsumerGroupConfig.from_kafka_config(config)
        # Named, because `slots` makes a second class, which super() without arguments does not know.
        return super().from_kafka_config(config, consumer=consumer, **given)
