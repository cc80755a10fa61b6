"""The storing of completions, and the metrics of the coordinator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas.coordinator.runtime.load_times import LoadTimes
from barnabas.coordinator.transaction.completion import RETRY_MS, TransactionCompletion
from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.markers.ended_transaction import EndedTransaction
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.metrics import register_transaction_metrics
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

DECIDED = TransactionMetadata("id", 7, 0, 1000, TransactionState.PREPARE_COMMIT, 1)
ENDED = EndedTransaction.of(TransactionEntry(DECIDED, 0, 5))


def test_a_completion_is_stored_again_until_the_log_takes_it() -> None:
    clock = MockClock()
    scheduler = MockScheduler(clock)
    answers = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]

    def store(ended: EndedTransaction, on_done: Callable[[ErrorCode], None]) -> None:
        assert ended is ENDED
        on_done(answers.pop(0))

    completion = TransactionCompletion(store, scheduler, ActionQueue())
    completion.markers_written(ENDED)
    for left in (2, 1):
        assert (len(answers), completion.waiting) == (left, 1)
        clock.advance(RETRY_MS)
        scheduler.tick()
    assert (answers, completion.waiting) == ([], 0)
    answers.append(ErrorCode.NOT_COORDINATOR)
    completion.markers_written(ENDED)
    assert completion.waiting == 0, "another broker completes it"


def test_metrics() -> None:
    clock = MockClock()
    registry = MetricsRegistry()
    load_times = deque([LoadTimes(0, 10, 1, clock.nanoseconds()), LoadTimes(1, 30, 1, clock.nanoseconds())])
    register_transaction_metrics(registry, lambda: 3, lambda: 4, load_times, clock)

    def shown() -> dict[str, float]:
        return {sample.name.mbean: sample.value for sample in registry.collect()}

    markers = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    loads = "kafka.server:type=transaction-coordinator-metrics/partition-load-time"
    assert shown() == {
        f"{markers}UnknownDestinationQueueSize": 3,
        f"{markers}LogAppendRetryQueueSize": 4,
        f"{loads}-max": 30,
        f"{loads}-avg": 20,
    }
    clock.advance(30_001)
    assert shown()[f"{loads}-max"] == shown()[f"{loads}-avg"] == 0
