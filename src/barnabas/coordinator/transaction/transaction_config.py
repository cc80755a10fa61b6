"""The settings of the transaction coordinator: a frozen snapshot of the broker's configuration.

Built by `broker`; read by any thread; never changed. Kafka: TransactionConfig, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting
from barnabas.coordinator.runtime.log import AppendTerms
from barnabas.records.compression import Codec


@dataclass(frozen=True, slots=True)
class TransactionCoordinatorConfig(Settings):
    """Settings of transactions.

    max_timeout_ms: the longest timeout that a producer may ask for. id_expiration_ms: how long an idle id is kept.
    abort_interval_ms, removal_interval_ms: how often overdue transactions and idle ids are looked for.
    load_buffer_bytes: the size of a read while loading. request_timeout_ms: the most that an append waits for replicas.
    """

    num_partitions: int = setting("transaction.state.log.num.partitions")
    load_buffer_bytes: int = setting("transaction.state.log.load.buffer.size")
    max_timeout_ms: int = setting("transaction.max.timeout.ms")
    id_expiration_ms: int = setting("transactional.id.expiration.ms")
    abort_interval_ms: int = setting("transaction.abort.timed.out.transaction.cleanup.interval.ms")
    removal_interval_ms: int = setting("transaction.remove.expired.transaction.cleanup.interval.ms")
    request_timeout_ms: int = setting("request.timeout.ms")

    @property
    def append_terms(self) -> AppendTerms:
        """How records are appended to the topic: by all replicas, uncompressed. Neither is a choice, as in Kafka."""
        return AppendTerms(Codec.NONE, -1, self.request_timeout_ms)
