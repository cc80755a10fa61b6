"""How loading is paced: a fifth of a core beside other work, all of it while there is none."""

from __future__ import annotations

from barnabas.coordinator.group.loading_pace import QUIET_NS, SLICE_NS, LoadingPace

MS = 1_000_000


def run(pace: LoadingPace, wall_ns: int, others_share: float) -> tuple[int, int]:
    """Slices and pauses until that much time has passed; returns CPU time used and time passed."""
    used = passed = 0
    while passed < wall_ns:
        step = SLICE_NS
        pause = pace.pause_ns(SLICE_NS, step, int(step * others_share))
        used += SLICE_NS
        passed += step
        if pause:
            pace.pause_ns(0, pause, int(pause * others_share))
            passed += pause
    return used, passed


def test_a_fifth_of_a_core_beside_other_work() -> None:
    pace = LoadingPace()
    run(pace, 50 * MS, 0.5)
    assert pace.is_busy
    used, passed = run(pace, 1000 * MS, 0.5)
    assert used <= 0.2 * passed
    assert used >= 0.15 * passed


def test_without_pauses_while_there_is_none() -> None:
    pace = LoadingPace()
    used, passed = run(pace, 200 * MS, 0.005)
    assert used == passed


def test_other_work_is_noticed_soon_and_forgotten_after_a_while() -> None:
    pace = LoadingPace()
    run(pace, 100 * MS, 0.0)
    assert not pace.is_busy
    run(pace, 20 * MS, 0.3)
    assert pace.is_busy
    run(pace, QUIET_NS // 2, 0.0)
    assert pace.is_busy
    run(pace, QUIET_NS, 0.0)
    assert not pace.is_busy
