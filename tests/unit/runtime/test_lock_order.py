"""The debug switch: off it costs nothing, on it finds the order that could deadlock."""

from __future__ import annotations

import threading

import pytest

from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.runtime import lock_order
from barnabas.runtime.lock_order import LockOrderViolation, LockRank, RankedLock, ranked_lock

pytestmark = pytest.mark.interpreted


class Operation(DelayedOperation):
    def try_complete(self) -> bool:
        return self.force_complete()

    def on_complete(self) -> None:
        pass


def test_off_it_is_a_plain_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_order, "CHECKING", False)
    assert isinstance(ranked_lock(LockRank.LOG), type(threading.Lock()))
    assert isinstance(ranked_lock(LockRank.LOG, reentrant=True), type(threading.RLock()))


def test_tests_run_with_the_switch_on() -> None:
    assert isinstance(ranked_lock(LockRank.LOG), RankedLock)


def test_the_order_is_held() -> None:
    state, partition = ranked_lock(LockRank.REPLICA_STATE_CHANGE), ranked_lock(LockRank.PARTITION)
    log = ranked_lock(LockRank.LOG, reentrant=True)
    with state, partition, log, log:
        pass
    with partition, pytest.raises(LockOrderViolation, match="REPLICA_STATE_CHANGE is taken while holding PARTITION"):
        state.acquire()
    with log, pytest.raises(LockOrderViolation), ranked_lock(LockRank.LOG):
        pass
    with state:
        pass


def test_nothing_completes_a_delayed_operation_under_a_lock() -> None:
    operation = Operation(1000)
    with ranked_lock(LockRank.LOG), pytest.raises(LockOrderViolation, match="completing Operation while holding LOG"):
        operation.force_complete()
    assert operation.force_complete(), "a refused completion leaves it as it was"
