"""Rates, averages and credits are those of Kafka, value for value."""

from __future__ import annotations

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metrics.rate import Average, Rate, SampleWindow
from barnabas.quota.quota_sensor import LONGEST_THROTTLE_TIME_MS, TokenBucket, throttle_time_ms, token_throttle_time_ms

WINDOW = SampleWindow(samples=4, sample_ms=1000)
BOUND = 100

# (milliseconds, what is recorded then, Rate, its window, TokenBucket, Avg): printed by those classes of Apache Kafka
# 3.9 for such a window and bound.
KAFKA = [
    (164, None, 0.0, 3000, 400.0, nan),
    (318, 348.0, 110.336081, 3154, 52.0, 348.0),
    (552, -20.0, 96.812279, 3388, 95.4, 164.0),
    (4553, 75.0, 25.0, 3000, 325.0, 75.0),
    (4691, None, 23.900574, 3138, 338.8, 75.0),
    (4915, 63.0, 41.046996, 3362, 298.2, 69.0),
    (8919, 19.0, 6.333333, 3000, 381.0, 19.0),
    (9230, 103.0, 36.846874, 3311, 297.0, 61.0),
    (10121, 115.0, 74.01624, 3202, 271.1, 79.0),
    (14127, 26.0, 8.666667, 3000, 374.0, 26.0),
    (14507, 53.0, 23.372781, 3380, 347.0, 39.5),
    (14802, 92.0, 46.530612, 3675, 284.5, 57.0),
    (15954, None, 44.682519, 3827, 399.7, 57.0),
    (16124, 24.0, 48.78659, 3997, 376.0, 48.75),
    (20129, 6.0, 2.0, 3000, 394.0, 6.0),
    (20354, 276.0, 87.44186, 3225, 124.0, 141.0),
    (20459, 0.0, 84.684685, 3330, 134.5, 94.0),
    (20806, None, 76.692956, 3677, 169.2, 94.0),
    (21026, 294.0, 147.806005, 3897, -102.8, 144.0),
    (21147, 11.0, 194.499669, 3018, -101.7, 117.4),
    (22641, 167.0, 214.692483, 3512, -119.3, 125.666667),
    (23897, None, 200.106157, 3768, 6.3, 125.666667),
    (23995, 186.0, 243.14537, 3866, -169.9, 134.285714),
    (24532, 106.0, 237.565296, 4403, -222.2, 130.75),
    (24691, 325.0, 300.526085, 4562, -531.3, 152.333333),
    (28697, 71.0, 23.666667, 3000, -201.7, 71.0),
    (30084, 195.0, 78.535577, 3387, -258.0, 133.0),
    (30147, 172.0, 126.956522, 3450, -423.7, 146.0),
    (31401, 158.0, 160.907127, 3704, -456.3, 149.0),
    (32503, None, 156.59485, 3806, -346.1, 149.0),
    (32542, 37.0, 164.629389, 3845, -379.2, 126.6),
    (33823, 28.0, 157.796202, 3739, -279.1, 118.0),
    (34479, 356.0, 188.109162, 3078, -569.5, 144.75),
    (34655, -19.0, 172.095882, 3254, -532.9, 112.0),
    (34803, 241.0, 235.449735, 3402, -759.1, 133.5),
    (34867, 372.0, 338.430467, 3466, -1124.7, 167.571429),
    (35786, 90.0, 340.628853, 3244, -1122.8, 157.857143),
    (35998, 341.0, 418.402778, 3456, -1442.6, 180.75),
    (36127, 169.0, 450.488145, 3585, -1598.7, 179.444444),
    (36902, 175.0, 569.340695, 3079, -1696.2, 194.777778),
    (36979, 34.0, 566.223067, 3156, -1722.5, 178.7),
    (37270, 89.0, 544.241369, 3447, -1782.4, 170.545455),
    (38062, 65.0, 457.891012, 4239, -1768.2, 161.75),
    (39581, 39.0, 291.47221, 4714, -1655.3, 152.666667),
    (39784, None, 279.438682, 4917, -1635.0, 152.666667),
    (43792, None, 0.0, 3000, -1234.2, nan),
    (47798, 188.0, 62.666667, 3000, -1021.6, 188.0),
    (47895, 262.0, 145.301905, 3097, -1273.9, 225.0),
]


def test_kafkas_values() -> None:
    rate, average, bucket = Rate(WINDOW), Average(WINDOW), TokenBucket(WINDOW, BOUND, 0)
    for now_ms, value, *expected in KAFKA:
        if value is not None:
            rate.record(value, now_ms)
            average.record(value, now_ms)
            bucket.record(value, BOUND, now_ms)
        measured = [
            rate.measure(now_ms),
            rate.window_ms(now_ms),
            bucket.measure(BOUND, now_ms),
            average.measure(now_ms),
        ]
        assert measured == pytest.approx(expected, nan_ok=True, abs=1e-5), now_ms


def test_throttle_times() -> None:
    assert throttle_time_ms(100, 50, 2000) == 2000  # Kafka's QuotaUtilsTest
    assert throttle_time_ms(55, 50, 1000) == 100
    assert throttle_time_ms(50, 50, 1000) == 0
    assert throttle_time_ms(1e300, 1e-9, 1000) == LONGEST_THROTTLE_TIME_MS
    assert throttle_time_ms(10, 0, 11_000) == 11_000  # no bytes at all: until the window is empty
    assert token_throttle_time_ms(-60, 5, 100_000) == 12_000
    assert token_throttle_time_ms(-60, 0, 11_000) == 11_000


@pytest.mark.parametrize("size", [16_000, 100_000, 250_000])
@pytest.mark.parametrize("connections", [1, 3])
def test_clients_that_wait_as_told_settle_at_the_bound(size: int, connections: int) -> None:
    """As fast as they may, over the window that brokers have. They send in bursts, one a window, as with Kafka, so the
    mean is that of several windows."""
    bound = 1_000_000
    rate = Rate(SampleWindow(samples=11, sample_ms=1000))
    free_at_ms = [0] * connections
    passed = 0
    for now_ms in range(120_000):
        for index, free_ms in enumerate(free_at_ms):
            if free_ms <= now_ms:
                rate.record(size, now_ms)
                passed += size if now_ms >= 10_000 else 0
                wait_ms = throttle_time_ms(rate.measure(now_ms), bound, rate.window_ms(now_ms))
                free_at_ms[index] = now_ms + max(1, wait_ms)
    assert passed / 110 == pytest.approx(bound, rel=0.1)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 1000)), max_size=40), st.integers(1, 100))
def test_a_bucket_never_gives_more_than_its_rate_and_one_burst(uses: list[tuple[int, int]], bound: int) -> None:
    bucket = TokenBucket(WINDOW, bound, 0)
    now_ms, taken, largest = 0, 0, 0
    for passed_ms, value in uses:
        now_ms += passed_ms
        if bucket.measure(bound, now_ms) >= 0:
            bucket.record(value, bound, now_ms)
            taken, largest = taken + value, max(largest, value)
    assert taken <= bound * (now_ms + WINDOW.duration_ms) / 1000 + largest + 1e-6
