"""The parts that the services of the transaction coordinator share.

Made once by `broker.transaction_stage`; never changed, so any thread reads it. Each part says which lock guards it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.log.transition_log import TransitionLog
from barnabas.coordinator.transaction.table import TransactionTable
from barnabas.coordinator.transaction.transaction_config import TransactionCoordinatorConfig
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.runtime.clock import Clock


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
