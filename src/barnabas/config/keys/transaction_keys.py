"""Settings of transactions and idempotent producers.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: TransactionLogConfigs, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import BOOLEAN, CLUSTER_WIDE, INT, SHORT
from barnabas.config.keys.bounds import AT_LEAST_1

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
