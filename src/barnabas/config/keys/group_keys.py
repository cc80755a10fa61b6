"""Settings of consumer groups, share groups and committed offsets.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9, but that
group.coordinator.rebalance.protocols and group.consumer.migration.policy default to what Kafka 4's do (decisions/0014).
Immutable.
Kafka: GroupCoordinatorConfig, OffsetConfig.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, INT_MAX

GROUP_KEYS = (
    ConfigKey(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        6000,
        "The shortest session timeout that a group member may ask for.",
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        1_800_000,
        "The longest session timeout that a group member may ask for.",
    ),
    # KIP-134: without the delay each of the members that start together would cause a rebalance of its own.
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        3000,
        "How long an empty group waits for more members before its first rebalance.",
    ),
    # KIP-389: each member costs memory here, and time in every rebalance of its group.
    ConfigKey("group.max.size", ConfigType.INT, INT_MAX, "The number of members that a group may have.", AT_LEAST_1),
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        ConfigType.LIST,
        ("classic", "consumer"),
        "The group protocols that are offered.",
        OneOf(("consumer", "classic", "share", "unknown")),
    ),
    ConfigKey(
        "group.coordinator.threads",
        ConfigType.INT,
        1,
        "The number of threads of Kafka's new group coordinator.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.coordinator.append.linger.ms",
        ConfigType.INT,
        10,
        "How long Kafka's new group coordinator gathers writes into one batch.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "group.coordinator.new.enable", ConfigType.BOOLEAN, False, "Whether Kafka's new group coordinator is used."
    ),
    ConfigKey(
        "offset.metadata.max.bytes", ConfigType.INT, 4096, "The largest size of the metadata beside a committed offset."
    ),
    # A batch that is larger is read whole all the same.
    ConfigKey(
        "offsets.load.buffer.size",
        ConfigType.INT,
        5_242_880,
        "The number of bytes read at a time while a coordinator loads offsets.",
        AT_LEAST_1,
    ),
    # KIP-115: the topic is not created with fewer replicas, so groups do not work until that many brokers are up.
    ConfigKey(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "The number of replicas of __consumer_offsets.",
        AT_LEAST_1,
    ),
    # Must not change once the topic exists: a group's partition is the hash of its id modulo this number.
    ConfigKey(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        50,
        "The number of partitions of __consumer_offsets.",
        AT_LEAST_1,
    ),
    # A tenth of other topics' segments: the active segment is not compacted, and a new coordinator reads all of it.
    ConfigKey(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        104_857_600,
        "The size of a segment of __consumer_offsets.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        ConfigType.INT,
        0,
        "The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    # Seven days, as log.retention.hours; one day until KIP-186, which lost the offsets of consumers that paused for a
    # weekend.
    ConfigKey(
        "offsets.retention.minutes",
        ConfigType.INT,
        10_080,
        "How long the offsets of an empty group are kept.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        600_000,
        "How often the coordinator looks for expired offsets.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        ConfigType.INT,
        5000,
        "How long an offset commit waits for its replicas.",
        AT_LEAST_1,
    ),
    # Deprecated in 3.8. Any other value than -1 lets a commit be acknowledged that a new leader does not have.
    ConfigKey(
        "offsets.commit.required.acks",
        ConfigType.SHORT,
        -1,
        "The number of acknowledgements that an offset commit needs; -1 is all in-sync replicas.",
    ),
    # In KIP-848 the broker, not the member, chooses session timeout and heartbeat interval. The minimum and maximum
    # bound the values that the broker accepts for them.
    ConfigKey(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "KIP-848: the session timeout of members.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "KIP-848: the shortest session timeout that the broker starts with.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        ConfigType.INT,
        60_000,
        "KIP-848: the longest session timeout that the broker starts with.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "KIP-848: the time between two heartbeats of a member.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "KIP-848: the shortest heartbeat interval that the broker starts with.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        ConfigType.INT,
        15_000,
        "KIP-848: the longest heartbeat interval that the broker starts with.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.max.size",
        ConfigType.INT,
        INT_MAX,
        "KIP-848: the number of members that a group may have.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.consumer.assignors",
        ConfigType.LIST,
        (
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
        "KIP-848: the assignors of the broker, of which the first is the default.",
        OneOf(
            (
                "uniform",
                "range",
                "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
                "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
            )
        ),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        "KIP-848: whether groups may move between the classic and the consumer protocol.",
        OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True),
    ),
    # Share groups (KIP-932) are not served: these settings are kept, so that a file written for Kafka starts.
    ConfigKey("group.share.session.timeout.ms", ConfigType.INT, 45_000, "Share groups: session timeout.", AT_LEAST_1),
    ConfigKey(
        "group.share.min.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "Share groups: shortest session timeout.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.share.max.session.timeout.ms",
        ConfigType.INT,
        60_000,
        "Share groups: longest session timeout.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.share.heartbeat.interval.ms", ConfigType.INT, 5000, "Share groups: time between heartbeats.", AT_LEAST_1
    ),
    ConfigKey(
        "group.share.min.heartbeat.interval.ms",
        ConfigType.INT,
        5000,
        "Share groups: shortest heartbeat interval.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.share.max.heartbeat.interval.ms",
        ConfigType.INT,
        15_000,
        "Share groups: longest heartbeat interval.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "group.share.max.size",
        ConfigType.SHORT,
        200,
        "Share groups: the number of members that a group may have.",
        Range(10, 1000),
    ),
    ConfigKey("group.share.enable", ConfigType.BOOLEAN, False, "Whether share groups are offered."),
    ConfigKey(
        "group.share.delivery.count.limit",
        ConfigType.INT,
        5,
        "Share groups: how many times a record is delivered at most.",
        Range(2, 10),
    ),
    ConfigKey(
        "group.share.record.lock.duration.ms",
        ConfigType.INT,
        30_000,
        "Share groups: how long a delivered record stays locked.",
        Range(1000, 60000),
    ),
    ConfigKey(
        "group.share.min.record.lock.duration.ms",
        ConfigType.INT,
        15_000,
        "Share groups: the shortest time that a record may stay locked.",
        Range(1000, 30000),
    ),
    ConfigKey(
        "group.share.max.record.lock.duration.ms",
        ConfigType.INT,
        60_000,
        "Share groups: the longest time that a record may stay locked.",
        Range(30000, 3600000),
    ),
    ConfigKey(
        "group.share.max.groups", ConfigType.SHORT, 10, "Share groups: the number of share groups.", Range(1, 100)
    ),
    ConfigKey(
        "group.share.partition.max.record.locks",
        ConfigType.INT,
        200,
        "Share groups: the number of locked records per partition.",
        Range(100, 10000),
    ),
)
