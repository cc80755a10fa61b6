"""Histograms give the percentiles that the sorted values have, within the error that buckets have."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metrics.histogram import (
    BUCKETS,
    HIGHEST,
    INDEX,
    INDEXED,
    LOWEST,
    PERCENTILES,
    Distribution,
    DurationHistogram,
    DurationTimer,
    Histogram,
    bucket_of,
)
from barnabas.metrics.metrics_registry import MetricsRegistry

ERROR = 1 / 16
LARGEST = (1 << 33) - 1
sizes = st.one_of(st.integers(0, 100), st.integers(0, 200_000), st.integers(0, LARGEST))


def percentile(values: list[int], share: float) -> int:
    """The smallest value that is not exceeded by `share` of them."""
    return sorted(values)[max(math.ceil(len(values) * share - 1e-9), 1) - 1]


def test_buckets_follow_each_other_without_a_gap_and_none_is_wider_than_an_eighth() -> None:
    for bucket in range(BUCKETS):
        assert bucket_of(LOWEST[bucket]) == bucket_of(HIGHEST[bucket]) == bucket
        assert bucket == 0 or LOWEST[bucket] == HIGHEST[bucket - 1] + 1
        assert HIGHEST[bucket] - LOWEST[bucket] <= LOWEST[bucket] / 8
    assert [INDEX[number] for number in (0, 1, 15, 16, 17, 18, INDEXED - 1)] == [0, 1, 15, 16, 16, 17, 111]
    assert bucket_of(-5) == 0
    assert bucket_of(LARGEST + 12345) == BUCKETS - 1


@given(st.lists(sizes, min_size=1, max_size=300))
def test_percentiles_of_sizes_are_those_of_the_sorted_values(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.update(value)
    found = histogram.distribution()
    assert found.count == len(values)
    for share, shown in zip(PERCENTILES, found.percentiles, strict=True):
        assert shown == pytest.approx(percentile(values, share), rel=ERROR, abs=0)
    assert found.total == pytest.approx(sum(values), rel=ERROR)
    assert found.mean == pytest.approx(sum(values) / len(values), rel=ERROR)
    assert found.minimum <= min(values) <= max(values) <= found.maximum
    assert found.maximum <= max(values) * 1.125
    assert found.minimum >= min(values) * 0.875


@given(st.lists(st.integers(0, 60_000_000_000), min_size=1, max_size=100), st.lists(st.floats(0.1, 60), max_size=3))
def test_durations_come_in_nanoseconds_and_show_in_milliseconds(values: list[int], ticks: list[float]) -> None:
    histogram = DurationHistogram()
    for value in values:
        histogram.update(value)
    for elapsed_seconds in ticks:
        histogram.tick(elapsed_seconds)  # of values of the same time none weighs more than another
    for share, shown in zip(PERCENTILES, histogram.distribution().percentiles, strict=True):
        exact = percentile(values, share) / 1e6
        assert shown == pytest.approx(exact, rel=0, abs=exact * ERROR + 1024 / 1e6)


def test_old_values_fade_from_the_percentiles_and_stay_in_the_count() -> None:
    histogram = Histogram()
    for _ in range(1000):
        histogram.update(1000)
    histogram.tick(5)
    for _ in range(10):
        histogram.update(10)
    histogram.tick(300)
    assert histogram.distribution().percentiles[0] == pytest.approx(1000, rel=ERROR)  # 11 of 21
    for _ in range(10):
        histogram.update(10)
    found = histogram.distribution()
    assert found.percentiles[0] == 10
    assert found.count == 1020
    histogram.tick(100_000)
    assert histogram.distribution().percentiles[0] == 10
    histogram.tick(100_000)
    assert histogram.distribution() == histogram.distribution()


def test_nothing_counted_is_all_zeros() -> None:
    histogram = Histogram()
    histogram.tick(5)
    assert histogram.distribution() == Distribution()
    assert Distribution().mean == 0


def test_the_registry_shows_histograms_timers_and_attributes_and_forgets_them() -> None:
    registry = MetricsRegistry()
    registry.register("kafka.network", "RequestMetrics", "RequestBytes", "", Histogram(), {"request": "Fetch"}).update(
        7
    )
    timer = registry.register("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs", "", DurationTimer())
    timer.update(3_000_000)
    registry.register_attribute("kafka.server", "Produce", "byte-rate", "", lambda: 5.5, {"client-id": "c"})
    registry.register_attribute("kafka.server", "socket-server-metrics", "select-total", "", lambda: 9)
    for now_ns in (1, 5_000_000_001):
        registry.tick(now_ns)
    samples = {sample.name.mbean: sample for sample in registry.collect()}
    sizes = samples["kafka.network:type=RequestMetrics,name=RequestBytes,request=Fetch"].distribution
    assert sizes is not None
    assert sizes.percentiles == (7,) * len(PERCENTILES)
    elections = samples["kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs"]
    assert elections.distribution is not None
    assert elections.distribution.mean == pytest.approx(3, rel=ERROR)
    assert elections.rates is not None
    assert elections.rates.one_minute > 0
    assert samples["kafka.server:type=Produce,client-id=c/byte-rate"].value == 5.5
    assert samples["kafka.server:type=socket-server-metrics/select-total"].is_counter
    registry.remove("kafka.network", "RequestMetrics", "RequestBytes", {"request": "Fetch"})
    registry.remove("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs")
    registry.remove("kafka.server", "Produce", "byte-rate", {"client-id": "c"})
    registry.remove("kafka.server", "nothing", "of-the-kind")
    assert [sample.name.name for sample in registry.collect()] == ["select-total"]


def test_what_fails_to_tick_or_to_list_leaves_the_others() -> None:
    class Broken:
        def samples(self) -> list[object]:
            raise RuntimeError("samples")

        def tick(self, elapsed_seconds: float) -> None:
            raise RuntimeError("tick")

    registry = MetricsRegistry()
    registry.family(Broken())  # type: ignore[arg-type]
    timer = registry.register("g", "t", "n", "", DurationTimer())
    timer.update(1)
    for now_ns in (1, 5_000_000_001):
        registry.tick(now_ns)
    assert timer.meter.rates.one_minute > 0
    assert len(registry.collect()) == 1
