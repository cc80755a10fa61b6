"""The rate of throttled replicas, and its limit."""

from __future__ import annotations

import pytest

from barnabas.metrics.rate import SampleWindow
from barnabas.quota.replication_quota import UNLIMITED, ReplicationQuota
from tests.support.mock_clock import MockClock


def test_the_rate_is_measured_over_a_sample_at_least_and_the_window_at_most() -> None:
    clock = MockClock()
    quota = ReplicationQuota(SampleWindow(samples=11, sample_ms=1000), clock)
    quota.record(3_000)
    assert quota.byte_rate() == 3_000, "over one sample, although no time has passed"
    clock.advance(2_000)
    assert quota.byte_rate() == 1_500
    clock.advance(9_000)
    assert quota.byte_rate() == 0, "the window has passed"


@pytest.mark.parametrize(
    ("limit", "is_exceeded"), [(UNLIMITED, False), (1_001, False), (1_000, False), (999, True), (0, True)]
)
def test_it_is_exceeded_above_its_limit_only(limit: int, *, is_exceeded: bool) -> None:
    quota = ReplicationQuota(SampleWindow(samples=11, sample_ms=1000), MockClock())
    quota.record(1_000)
    quota.limit(limit)
    assert quota.is_exceeded is is_exceeded
