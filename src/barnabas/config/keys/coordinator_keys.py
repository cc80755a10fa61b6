"""Settings of the two coordinators: groups, share groups and committed offsets; transactions and idempotent producers.

Tables, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9, but that
group.coordinator.rebalance.protocols and group.consumer.migration.policy default to what Kafka 4's do (decisions/0014).
Immutable.
Kafka: GroupCoordinatorConfig, OffsetConfig, TransactionLogConfigs, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    OneOf,
    Range,
)

_ONE_COORDINATOR: Final = "there is one group coordinator, which works on the threads of requests and of the scheduler"
_NO_SHARE_GROUPS: Final = "there are no share groups yet"
_UNIFORM: Final = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
_RANGE: Final = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"

GROUP_KEYS = (
    INT("group.min.session.timeout.ms", 6000) | "The shortest session timeout that a group member may ask for.",
    INT("group.max.session.timeout.ms", 1_800_000) | "The longest session timeout that a group member may ask for.",
    # KIP-134: without the delay each of the members that start together would cause a rebalance of its own.
    INT("group.initial.rebalance.delay.ms", 3000)
    | "How long an empty group waits for more members before its first rebalance.",
    # KIP-389: each member costs memory here, and time in every rebalance of its group.
    INT("group.max.size", INT_MAX, AT_LEAST_1) | "The number of members that a group may have.",
    LIST(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer"),
        OneOf(("consumer", "classic", "share", "unknown")),
    )
    | "The group protocols that are offered.",
    INT("group.coordinator.threads", 1, AT_LEAST_1, kept=_ONE_COORDINATOR)
    | "The number of threads of Kafka's new group coordinator.",
    INT("group.coordinator.append.linger.ms", 10, AT_LEAST_0, kept=_ONE_COORDINATOR)
    | "How long Kafka's new group coordinator gathers writes into one batch.",
    BOOLEAN("group.coordinator.new.enable", False, kept=_ONE_COORDINATOR, is_internal=True)
    | "Whether Kafka's new group coordinator is used.",
    INT("offset.metadata.max.bytes", 4096) | "The largest size of the metadata beside a committed offset.",
    # A batch that is larger is read whole all the same.
    INT("offsets.load.buffer.size", 5_242_880, AT_LEAST_1)
    | "The number of bytes read at a time while a coordinator loads offsets.",
    # KIP-115: the topic is not created with fewer replicas, so groups do not work until that many brokers are up.
    SHORT("offsets.topic.replication.factor", 3, AT_LEAST_1) | "The number of replicas of __consumer_offsets.",
    # Must not change once the topic exists: a group's partition is the hash of its id modulo this number.
    INT("offsets.topic.num.partitions", 50, AT_LEAST_1) | "The number of partitions of __consumer_offsets.",
    # A tenth of other topics' segments: the active segment is not compacted, and a new coordinator reads all of it.
    INT("offsets.topic.segment.bytes", 104_857_600, AT_LEAST_1) | "The size of a segment of __consumer_offsets.",
    INT("offsets.topic.compression.codec", 0)
    | "The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    # Seven days, as log.retention.hours; one day until KIP-186, which lost the offsets of consumers that paused for a
    # weekend.
    INT("offsets.retention.minutes", 10_080, AT_LEAST_1) | "How long the offsets of an empty group are kept.",
    LONG("offsets.retention.check.interval.ms", 600_000, AT_LEAST_1)
    | "How often the coordinator looks for expired offsets.",
    INT("offsets.commit.timeout.ms", 5000, AT_LEAST_1) | "How long an offset commit waits for its replicas.",
    # Deprecated in 3.8. Any other value than -1 lets a commit be acknowledged that a new leader does not have.
    SHORT("offsets.commit.required.acks", -1)
    | "The number of acknowledgements that an offset commit needs; -1 is all in-sync replicas.",
    # In KIP-848 the broker, not the member, chooses session timeout and heartbeat interval. The minimum and maximum
    # bound the values that the broker accepts for them.
    INT("group.consumer.session.timeout.ms", 45_000, AT_LEAST_1) | "KIP-848: the session timeout of members.",
    INT("group.consumer.min.session.timeout.ms", 45_000, AT_LEAST_1)
    | "KIP-848: the shortest session timeout that the broker starts with.",
    INT("group.consumer.max.session.timeout.ms", 60_000, AT_LEAST_1)
    | "KIP-848: the longest session timeout that the broker starts with.",
    INT("group.consumer.heartbeat.interval.ms", 5000, AT_LEAST_1)
    | "KIP-848: the time between two heartbeats of a member.",
    INT("group.consumer.min.heartbeat.interval.ms", 5000, AT_LEAST_1)
    | "KIP-848: the shortest heartbeat interval that the broker starts with.",
    INT("group.consumer.max.heartbeat.interval.ms", 15_000, AT_LEAST_1)
    | "KIP-848: the longest heartbeat interval that the broker starts with.",
    INT("group.consumer.max.size", INT_MAX, AT_LEAST_1) | "KIP-848: the number of members that a group may have.",
    LIST("group.consumer.assignors", (_UNIFORM, _RANGE), OneOf(("uniform", "range", _UNIFORM, _RANGE)))
    | "KIP-848: the assignors of the broker, of which the first is the default.",
    STRING(
        "group.consumer.migration.policy",
        "bidirectional",
        OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True),
        is_internal=True,
    )
    | "KIP-848: whether groups may move between the classic and the consumer protocol.",
    # Share groups (KIP-932) are not served: these settings are kept, so that a file written for Kafka starts.
    INT("group.share.session.timeout.ms", 45_000, AT_LEAST_1, kept=_NO_SHARE_GROUPS) | "Share groups: session timeout.",
    INT("group.share.min.session.timeout.ms", 45_000, AT_LEAST_1, kept=_NO_SHARE_GROUPS)
    | "Share groups: shortest session timeout.",
    INT("group.share.max.session.timeout.ms", 60_000, AT_LEAST_1, kept=_NO_SHARE_GROUPS)
    | "Share groups: longest session timeout.",
    INT("group.share.heartbeat.interval.ms", 5000, AT_LEAST_1, kept=_NO_SHARE_GROUPS)
    | "Share groups: time between heartbeats.",
    INT("group.share.min.heartbeat.interval.ms", 5000, AT_LEAST_1, kept=_NO_SHARE_GROUPS)
    | "Share groups: shortest heartbeat interval.",
    INT("group.share.max.heartbeat.interval.ms", 15_000, AT_LEAST_1, kept=_NO_SHARE_GROUPS)
    | "Share groups: longest heartbeat interval.",
    SHORT("group.share.max.size", 200, Range(10, 1000), kept=_NO_SHARE_GROUPS)
    | "Share groups: the number of members that a group may have.",
    BOOLEAN("group.share.enable", False, kept=_NO_SHARE_GROUPS, is_internal=True) | "Whether share groups are offered.",
    INT("group.share.delivery.count.limit", 5, Range(2, 10), kept=_NO_SHARE_GROUPS)
    | "Share groups: how many times a record is delivered at most.",
    INT("group.share.record.lock.duration.ms", 30_000, Range(1000, 60000), kept=_NO_SHARE_GROUPS)
    | "Share groups: how long a delivered record stays locked.",
    INT("group.share.min.record.lock.duration.ms", 15_000, Range(1000, 30000), kept=_NO_SHARE_GROUPS)
    | "Share groups: the shortest time that a record may stay locked.",
    INT("group.share.max.record.lock.duration.ms", 60_000, Range(30000, 3600000), kept=_NO_SHARE_GROUPS)
    | "Share groups: the longest time that a record may stay locked.",
    SHORT("group.share.max.groups", 10, Range(1, 100), kept=_NO_SHARE_GROUPS)
    | "Share groups: the number of share groups.",
    INT("group.share.partition.max.record.locks", 200, Range(100, 10000), kept=_NO_SHARE_GROUPS)
    | "Share groups: the number of locked records per partition.",
)


TRANSACTION_KEYS = (
    INT("transaction.state.log.min.isr", 2, AT_LEAST_1) | "min.insync.replicas of __transaction_state.",
    INT("transaction.state.log.load.buffer.size", 5_242_880, AT_LEAST_1)
    | "The number of bytes read at a time while a coordinator loads transactions.",
    SHORT("transaction.state.log.replication.factor", 3, AT_LEAST_1) | "The number of replicas of __transaction_state.",
    # Must not change once the topic exists: the hash of a transactional id modulo this number is its coordinator's
    # partition.
    INT("transaction.state.log.num.partitions", 50, AT_LEAST_1) | "The number of partitions of __transaction_state.",
    INT("transaction.state.log.segment.bytes", 104_857_600, AT_LEAST_1)
    | "The size of a segment of __transaction_state.",
    # KIP-890: without the check a late write may join a transaction that has ended, and block readers of committed
    # records.
    BOOLEAN("transaction.partition.verification.enable", True, scope=CLUSTER_WIDE)
    | "Whether the broker verifies that a partition belongs to a transaction before it is written.",
    # KIP-854 separated this time from transactional.id.expiration.ms. A producer that was idle for longer and goes on
    # with its next sequence number is accepted as a new one.
    INT("producer.id.expiration.ms", 86_400_000, AT_LEAST_1, CLUSTER_WIDE)
    | "How long the sequence numbers of an idle producer are kept.",
    INT("producer.id.expiration.check.interval.ms", 600_000, AT_LEAST_1, is_internal=True)
    | "How often the broker looks for expired producers.",
    INT("transactional.id.expiration.ms", 604_800_000, AT_LEAST_1) | "How long an idle transactional id is kept.",
    # An open transaction holds back every reader of committed records, so a client cannot ask for any time it likes.
    INT("transaction.max.timeout.ms", 900_000, AT_LEAST_1)
    | "The longest transaction timeout that a client may ask for.",
    INT("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, AT_LEAST_1)
    | "How often the coordinator looks for transactions that have timed out.",
    INT("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, AT_LEAST_1)
    | "How often the coordinator looks for expired transactional ids.",
)
