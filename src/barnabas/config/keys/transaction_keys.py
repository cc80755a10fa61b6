"""Settings of transactions and idempotent producers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: TransactionLogConfigs, TransactionStateManagerConfigs.
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
        "The number of bytes read at a time while a coordinator loads transactions.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        3,
        "The number of replicas of __transaction_state.",
        AT_LEAST_1,
    ),
    # Must not change once the topic exists: the hash of a transactional id modulo this number is its coordinator's
    # partition.
    ConfigKey(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        50,
        "The number of partitions of __transaction_state.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        104_857_600,
        "The size of a segment of __transaction_state.",
        AT_LEAST_1,
    ),
    # KIP-890: without the check a late write may join a transaction that has ended, and block readers of committed
    # records.
    ConfigKey(
        "transaction.partition.verification.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether the broker verifies that a partition belongs to a transaction before it is written.",
        scope=Scope.CLUSTER_WIDE,
    ),
    # KIP-854 separated this time from transactional.id.expiration.ms. A producer that was idle for longer and goes on
    # with its next sequence number is accepted as a new one.
    ConfigKey(
        "producer.id.expiration.ms",
        ConfigType.INT,
        86_400_000,
        "How long the sequence numbers of an idle producer are kept.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        ConfigType.INT,
        600_000,
        "How often the broker looks for expired producers.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        604_800_000,
        "How long an idle transactional id is kept.",
        AT_LEAST_1,
    ),
    # An open transaction holds back every reader of committed records, so a client cannot ask for any time it likes.
    ConfigKey(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        900_000,
        "The longest transaction timeout that a client may ask for.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10_000,
        "How often the coordinator looks for transactions that have timed out.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        3_600_000,
        "How often the coordinator looks for expired transactional ids.",
        AT_LEAST_1,
    ),
)
