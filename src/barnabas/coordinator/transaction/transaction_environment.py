"""The settings of the transaction coordinator, and the parts that its services share: its table of ids, for one.

The settings are a frozen snapshot of the broker's configuration. The environment is made once by
`broker.stages.transaction_coordinator_builder`. Neither changes, so any thread reads them; each shared part says which
lock guards it. Kafka: TransactionConfig, TransactionStateManagerConfigs,
TransactionStateManager.transactionMetadataCache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.config.setting import Settings, setting
from barnabas.coordinator.runtime.coordinated_table import CoordinatedTable
from barnabas.coordinator.runtime.coordinator_log import AppendTerms
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_log import TransitionLog
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
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


class TransactionTable(CoordinatedTable[TransactionEntry]):
    """The ids that this broker coordinates: entries by transactional id and by partition of `__transaction_state`.

    Used on every thread. `CoordinatedTable` says what its lock guards.
    """

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """Return the entry of an id, or None if there is none.

        Raises ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE.
        """
        error = self._partitions.check(transactional_id)
        if error is not ErrorCode.NONE:
            raise ApiError(error)
        return self._entries.get(transactional_id)

    def get_or_add(self, metadata: TransactionMetadata) -> TransactionEntry:
        """Return the entry of an id, made of `metadata` if there is none. Raises ApiError as `get` does."""
        transactional_id = metadata.transactional_id
        partition = self._partitions.partition_for(transactional_id)
        with self._lock:
            # `take_all` holds this lock, too: no entry is left in the table when its partition has been given up.
            error = self._partitions.check(transactional_id)
            status = self._partitions.status(partition)
            if error is not ErrorCode.NONE or status is None:
                raise ApiError(ErrorCode.NOT_COORDINATOR if error is ErrorCode.NONE else error)
            entry = self._entries.get(transactional_id)
            if entry is None:
                entry = TransactionEntry(metadata, partition, status.leader_epoch)
                self._insert(entry)
            return entry


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
