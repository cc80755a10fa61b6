"""The statistics of the clients' metrics."""

from __future__ import annotations

import math

from barnabas.clients.client_metrics import Extreme


def test_an_extreme_is_forgotten_with_its_sample() -> None:
    largest = Extreme(max)
    assert math.isnan(largest.measure(0))
    largest.record(9, 0)
    largest.record(3, 30_000)
    assert largest.measure(59_999) == 9
    assert largest.measure(60_000) == 3
    assert math.isnan(largest.measure(90_000))
