"""The parts that the services of the transaction coordinator share, over the replicas of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.transaction_entry import TransactionTable
from barnabas.coordinator.transaction.transaction_environment import (
    TransactionCoordinatorConfig,
    TransactionEnvironment,
)
from barnabas.coordinator.transaction.transaction_log import TransitionLog
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from tests.unit.replica.replica_harness import Replicas


def transaction_environment(
    replicas: Replicas, new_producer_id: Callable[[], int], **settings: Any
) -> TransactionEnvironment:
    """The parts of a coordinator that has not been started and leads nothing."""
    config = TransactionCoordinatorConfig(**settings)
    partitions = CoordinatorPartitions(TRANSACTION_STATE_TOPIC, replicas.metadata, 3)
    log = CoordinatorLog(TRANSACTION_STATE_TOPIC, replicas.manager.appender, config.append_terms, replicas.clock)
    return TransactionEnvironment(
        config=config,
        clock=replicas.clock,
        actions=replicas.actions,
        partitions=partitions,
        table=TransactionTable(partitions),
        log=TransitionLog(log),
        new_producer_id=new_producer_id,
    )
