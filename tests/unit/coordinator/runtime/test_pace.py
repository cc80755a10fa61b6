"""How loading is paced: a fifth of a core beside other work, all of it while there is none."""

from __future__ import annotations

import pytest

from barnabas.coordinator.runtime.coordinator_loader import (
    CREDIT_NS,
    PAUSE_FACTOR,
    QUIET_NS,
    SLICE_NS,
    CpuReadings,
    LoadingPace,
)

MS = 1_000_000


class Machine:
    """A loading that works in slices and pauses as it is told; others use a share of the time that passes."""

    def __init__(self) -> None:
        self.now_ns = 5 * MS
        self.own_ns = 0
        self.process_ns = 0
        self.pace = LoadingPace(self.readings())

    def readings(self) -> CpuReadings:
        return CpuReadings(self.now_ns, self.own_ns, self.process_ns)

    def run(self, wall_ns: int, others_share: float, *, oversleeps_ns: int = 0, stolen_ns: int = 0) -> float:
        """The share of a core that loading had. stolen_ns: so much longer each slice takes than it uses."""
        began_ns, used_before_ns = self.now_ns, self.own_ns
        while self.now_ns < began_ns + wall_ns:
            self._pass(SLICE_NS + stolen_ns, others_share)
            self.own_ns += SLICE_NS
            self.process_ns += SLICE_NS
            pause_ns = self.pace.pause_ns(self.readings())
            if pause_ns:
                self._pass(pause_ns + oversleeps_ns, others_share)
        return (self.own_ns - used_before_ns) / (self.now_ns - began_ns)

    def _pass(self, duration_ns: int, others_share: float) -> None:
        self.now_ns += duration_ns
        self.process_ns += int(duration_ns * others_share)


def test_a_fifth_of_a_core_beside_other_work() -> None:
    machine = Machine()
    machine.run(50 * MS, 0.5)
    share = machine.run(1000 * MS, 0.5)
    assert machine.pace.is_busy
    assert share == pytest.approx(1 / PAUSE_FACTOR, abs=0.005)


@pytest.mark.parametrize("late_ns", [MS // 2, 3 * MS])
def test_a_fifth_on_a_machine_that_wakes_and_works_late(late_ns: int) -> None:
    machine = Machine()
    machine.run(50 * MS, 0.5)
    assert machine.run(1000 * MS, 0.5, oversleeps_ns=late_ns) == pytest.approx(1 / PAUSE_FACTOR, abs=0.02)
    assert machine.run(1000 * MS, 0.5, stolen_ns=late_ns) == pytest.approx(1 / PAUSE_FACTOR, abs=0.02)


def test_a_long_stop_is_not_made_good() -> None:
    machine = Machine()
    machine.run(100 * MS, 0.5)
    machine.now_ns += 1000 * MS
    machine.process_ns += 500 * MS
    assert machine.run(50 * MS, 0.5) <= 1 / PAUSE_FACTOR + CREDIT_NS / (50 * MS) / PAUSE_FACTOR + 0.05


def test_without_pauses_while_there_is_no_other_work() -> None:
    assert Machine().run(200 * MS, 0.01) == pytest.approx(1.0)


def test_other_work_is_noticed_soon_and_forgotten_after_a_while() -> None:
    machine = Machine()
    seen = []
    for wall_ns, others_share in ((100 * MS, 0.0), (40 * MS, 0.3), (QUIET_NS // 2, 0.0), (2 * QUIET_NS, 0.0)):
        machine.run(wall_ns, others_share)
        seen.append(machine.pace.is_busy)
    assert seen == [False, True, True, False]
