"""The system clock and its mock keep the same promises."""

import time

from barnabas.runtime.clock import Clock, SystemClock
from tests.support.mock_clock import MockClock


def test_system_clock_tells_the_machines_time() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.milliseconds() - time.time() * 1000) < 10_000
    assert clock.nanoseconds() <= clock.nanoseconds()


def test_mock_clock_moves_when_told() -> None:
    clock = MockClock(milliseconds=1000)
    before = clock.nanoseconds()
    clock.advance(2.5)
    assert clock.milliseconds() == 1002
    assert clock.nanoseconds() - before == 2_500_000
    clock.set_wall_time(5)
    assert clock.milliseconds() == 5
    assert clock.nanoseconds() - before == 2_500_000
