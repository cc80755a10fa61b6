"""A RolledMeter forgets with the samples of its owner, and its rates are Kafka's."""

from __future__ import annotations

import math
from random import Random

from barnabas.clients.client_metrics import ClientMeter, Values
from barnabas.metrics.meter import ROLL_MS, RolledMeter


def test_totals_last_and_the_window_does_not() -> None:
    meter = RolledMeter(0)
    assert math.isnan(meter.average())
    assert math.isnan(meter.maximum())
    meter.record(9)
    meter.roll(ROLL_MS)
    meter.record(3)
    assert (meter.average(), meter.maximum()) == (6, 9)
    meter.roll(2 * ROLL_MS)
    assert (meter.average(), meter.maximum()) == (3, 3)
    meter.roll(3 * ROLL_MS)
    assert math.isnan(meter.average())
    assert math.isnan(meter.maximum())
    assert (meter.count, meter.total, meter.rate(3 * ROLL_MS), meter.count_rate(3 * ROLL_MS)) == (2, 12, 0, 0)


def test_a_rate_is_not_enormous_at_first() -> None:
    meter = RolledMeter(1_000)
    meter.record(600)
    assert meter.rate(1_000) == 20  # as if one sample of 30 s were complete
    assert meter.rate(61_000) == 10
    assert meter.count_rate(61_000) == 1 / 60


def test_it_measures_what_kafkas_statistics_measure() -> None:
    """With a value in each second, the two ways differ by what each counts at the ends of its samples."""
    random = Random(18)
    ours, kafkas, values = RolledMeter(0), ClientMeter(), Values()
    for now_ms in range(0, 600_000, 1_000):
        if now_ms and now_ms % ROLL_MS == 0:
            ours.roll(now_ms)
        value = random.randrange(50, 150)
        ours.record(value)
        kafkas.record(value, now_ms)
        values.record(value, now_ms)
        if now_ms >= 2 * ROLL_MS:
            assert abs(ours.rate(now_ms) / kafkas.rate(now_ms) - 1) < 0.15
            assert abs(ours.average() / values.average(now_ms) - 1) < 0.15
            assert ours.maximum() <= values.extreme(now_ms) + 10
    assert (ours.total, ours.count) == (kafkas.total, 600)
