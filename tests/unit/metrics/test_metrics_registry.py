"""Meters and the registry that names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metrics.meter import NO_RATES, Meter
from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample

SECOND_NS = 1_000_000_000


def by_mbean(registry: MetricsRegistry) -> dict[str, Sample]:
    return {sample.name.mbean: sample for sample in registry.collect()}


def test_names_are_kafka_s() -> None:
    registry = MetricsRegistry()
    registry.register("kafka.server", "ReplicaManager", "LeaderCount", "", lambda: 3)
    tags = {"fetcherType": "consumer"}
    meter = registry.register("kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", "", Meter(), tags)
    meter.count += 2
    samples = by_mbean(registry)
    assert samples["kafka.server:type=ReplicaManager,name=LeaderCount"].value == 3
    sample = samples["kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer"]
    assert (sample.value, sample.rates) == (2, NO_RATES)


def test_a_gauge_that_fails_leaves_the_others() -> None:
    registry = MetricsRegistry()
    registry.register("g", "t", "broken", "", lambda: 1 // 0)
    registry.register("g", "t", "fine", "", lambda: 1)
    assert list(by_mbean(registry)) == ["g:type=t,name=fine"]


def test_families_list_their_members_when_asked() -> None:
    class Topics:
        def __init__(self) -> None:
            self.names: list[str] = []
            self.ticked: list[float] = []

        def samples(self) -> Iterator[Sample]:
            for name in self.names:
                yield Sample(MBeanName("g", "t", "n", (("topic", name),)), 1, "")

        def tick(self, elapsed_seconds: float) -> None:
            self.ticked.append(elapsed_seconds)

    registry = MetricsRegistry()
    topics = Topics()
    registry.family(topics)
    assert registry.collect() == []
    topics.names = ["a", "b"]
    assert list(by_mbean(registry)) == ["g:type=t,name=n,topic=a", "g:type=t,name=n,topic=b"]
    for now_ns in (1, 1 + 5 * SECOND_NS, 1 + 5 * SECOND_NS):
        registry.tick(now_ns)
    assert topics.ticked == [5.0]


def test_a_steady_rate_is_that_rate_and_silence_ends_it() -> None:
    meter = Meter()
    for _ in range(2000):
        meter.count += 50
        meter.tick(5)
    assert meter.rates == pytest.approx((10, 10, 10), rel=0.01)
    meter.tick(60)
    assert meter.rates.one_minute == pytest.approx(10 / 2.718281828, rel=0.01)
    for _ in range(10_000):
        meter.tick(5)
    assert meter.rates is NO_RATES
    assert meter.count == 100_000


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0.1, 100)), max_size=30))
def test_rates_stay_between_the_smallest_and_the_largest_there_was(history: list[tuple[int, float]]) -> None:
    meter = Meter()
    for events, seconds in history:
        meter.count += events
        meter.tick(seconds)
    largest = max((events / seconds for events, seconds in history), default=0.0)
    assert all(0 <= rate <= largest * 1.000001 for rate in meter.rates)
