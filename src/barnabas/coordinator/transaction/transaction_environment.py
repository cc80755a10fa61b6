"""The settings of the transaction coordinator, and the parts that its services share.

The settings are a frozen snapshot of the broker's configuration. The environment is made once by
`broker.stages.transaction_coordinator_builder`. Neither changes, so any thread reads them; each shared part says which
lock guards it. Kafka: TransactionConfig, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.config.setting import Settings, setting
from barnabas.coordinator.runtime.coordinator_log import AppendTerms
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.transaction_entry import TransactionTable
from barnabas.coordinator.transaction.transaction_log import TransitionLog
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.records.compression import Codec
from barnabas.runtime.clock import Clock


class TransactionCoordinatorConfig(Settings):
    """Settings of transactions.

    max_timeout_ms: the longest timeout that a producer may ask for. id_expiration_ms: how long an idle id is kept.
    abort_interval_ms, removal_interval_ms: how often overdue transactions and idle ids are looked for.
    load_buffer_bytes: the size of a read while loading. request_timeout_ms: the most that an append waits for replicas.
    """

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


@dataclass(frozen=True, slots=True)
class TransactionEnvironment:
    """The shared parts. new_producer_id: an id that no producer has; may block on the store.

    actions: work that waits until no lock is held. A task on a thread of its own must call `actions.run_all`.
    """

    config: TransactionCoordinatorConfig
    clock: Clock
    actions: ActionQueue
    partitions: CoordinatorPartitions
    table: TransactionTable
    log: TransitionLog
    new_producer_id: Callable[[], int]
