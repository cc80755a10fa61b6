"""The storing of completions, and the metrics of the coordinator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from barnabas.broker.stages.transaction_stage import register_transaction_metrics
from barnabas.coordinator.runtime.coordinator_loader import LoadTimes
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction
from barnabas.coordinator.transaction.marker_sender import RETRY_MS, TransactionCompletion
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCounts
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

DECIDED = TransactionMetadata("id", 7, 0, 1000, TransactionState.PREPARE_COMMIT, 1)


class Completions:
    """A completion whose log answers as the test says, at once."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.ended = EndedTransaction.of(TransactionEntry(DECIDED, 0, 5))
        self._clock = MockClock()
        self._scheduler = MockScheduler(self._clock)
        self.completion = TransactionCompletion(self._store, self._scheduler, ActionQueue())
        self.completion.markers_written(self.ended)

    def _store(self, ended: EndedTransaction, on_done: Callable[[ErrorCode], None]) -> None:
        assert ended is self.ended
        on_done(self.answers.pop(0))

    def pass_pause(self) -> None:
        self._clock.advance(RETRY_MS)
        self._scheduler.tick()


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_completion_is_stored_again_until_the_log_takes_it(error: ErrorCode) -> None:
    """NOT_COORDINATOR is also a full disk, on which the broker leads and coordinates on."""
    tried = Completions(error, error, ErrorCode.NONE)
    for left in (2, 1):
        assert (len(tried.answers), tried.completion.waiting) == (left, 1)
        tried.pass_pause()
    assert (tried.answers, tried.completion.waiting) == ([], 0)


def test_a_completion_is_left_to_another_coordinator() -> None:
    tried = Completions(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    tried.ended.entry.is_removed = True
    tried.pass_pause()
    assert (tried.answers, tried.completion.waiting) == ([], 0)


def test_a_completion_that_is_stored_by_then_is_not_repeated() -> None:
    tried = Completions(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    tried.ended.entry.metadata = DECIDED._replace(state=TransactionState.COMPLETE_COMMIT)
    tried.pass_pause()
    assert (tried.answers, tried.completion.waiting) == ([], 0)


def test_metrics() -> None:
    clock = MockClock()
    registry = MetricsRegistry()
    load_times = deque([LoadTimes(0, 10, 1, clock.nanoseconds()), LoadTimes(1, 30, 1, clock.nanoseconds())])
    counts: list[TransactionCounts] = []
    register_transaction_metrics(registry, lambda: counts[0] if counts else None, clock)

    def shown() -> dict[str, float]:
        return {sample.name.mbean: sample.value for sample in registry.collect()}

    markers = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    loads = "kafka.server:type=transaction-coordinator-metrics/partition-load-time"
    assert set(shown().values()) == {0}  # no transaction so far
    counts.append(TransactionCounts(lambda: 3, lambda: 4, load_times))
    assert shown() == {
        f"{markers}UnknownDestinationQueueSize": 3,
        f"{markers}LogAppendRetryQueueSize": 4,
        f"{loads}-max": 30,
        f"{loads}-avg": 20,
    }
    clock.advance(30_001)
    assert shown()[f"{loads}-max"] == shown()[f"{loads}-avg"] == 0
