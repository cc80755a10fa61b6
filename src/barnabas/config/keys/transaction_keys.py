"""Settings of transactions and idempotent producers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, Scope
from barnabas.config.keys.bounds import AT_LEAST_1

TRANSACTION_KEYS = (
    ConfigKey(
        "transaction.state.log.min.isr", ConfigType.INT, 2, "min.insync.replicas of __transaction_state.", AT_LEAST_1
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        ConfigType.INT,
        5_242_880,
        "Bytes read at a time when a coordinator loads transactions.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.state.log.replication.factor", ConfigType.SHORT, 3, "Replicas of __transaction_state.", AT_LEAST_1
    ),
    ConfigKey(
        "transaction.state.log.num.partitions", ConfigType.INT, 50, "Partitions of __transaction_state.", AT_LEAST_1
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        104_857_600,
        "Segment size of __transaction_state.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a partition's part in a transaction is verified before it is written.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        ConfigType.INT,
        86_400_000,
        "How long an idle producer's sequence numbers are remembered.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        ConfigType.INT,
        600_000,
        "How often expired producers are looked for.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        604_800_000,
        "How long an idle transactional id is remembered.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.max.timeout.ms", ConfigType.INT, 900_000, "Longest transaction a client may ask for.", AT_LEAST_1
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10_000,
        "How often timed out transactions are looked for.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        3_600_000,
        "How often expired transactional ids are looked for.",
        AT_LEAST_1,
    ),
)
