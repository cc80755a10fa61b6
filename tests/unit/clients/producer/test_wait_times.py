"""The times of a producer's calls that wait, on a clock that the test moves."""

from __future__ import annotations

import pytest

from barnabas.clients.producer.producer_topics import Wait, WaitTimes
from tests.support.mock_clock import MockClock

MILLISECOND_NS = 1_000_000


def test_the_times_of_one_kind_add_up_and_a_call_that_raises_counts_nothing() -> None:
    clock = MockClock()
    waits = WaitTimes(clock)
    for waited_ms in (2, 3):
        with waits.measured(Wait.FLUSH):
            clock.advance(waited_ms)
    with pytest.raises(ZeroDivisionError), waits.measured(Wait.TXN_COMMIT):
        clock.advance(7 // 0)
    totals = dict(waits.totals())
    assert totals.pop("flush-time-ns-total") == 5 * MILLISECOND_NS
    assert set(totals.values()) == {0}
    assert sorted(totals) == [
        "metadata-wait-time-ns-total",
        "txn-abort-time-ns-total",
        "txn-begin-time-ns-total",
        "txn-commit-time-ns-total",
        "txn-init-time-ns-total",
        "txn-prepare-time-ns-total",
        "txn-send-offsets-time-ns-total",
    ]
