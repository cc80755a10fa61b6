"""The timer against a model: every task runs once, at its tick or at the first advance after it, unless cancelled."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from barnabas.purgatory.timer import SystemTimer
from barnabas.purgatory.timing_wheel import TimerEntry
from tests.support.mock_clock import MockClock

delays_ms = st.integers(min_value=0, max_value=200_000)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), delays_ms),
        st.tuples(st.just("advance"), st.integers(min_value=0, max_value=50_000)),
        st.tuples(st.just("cancel"), st.integers(min_value=0, max_value=30)),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([(1, 20), (1, 2), (7, 3), (100, 5)]))
def test_every_task_runs_once_and_in_time(history: list[tuple[str, int]], wheel: tuple[int, int]) -> None:
    tick_ms, wheel_size = wheel
    clock = MockClock()
    run: list[int] = []
    timer = SystemTimer(clock, lambda task: task(), tick_ms=tick_ms, wheel_size=wheel_size)
    start_ms = clock.nanoseconds() // 1_000_000
    now_ms = start_ms
    entries: list[TimerEntry] = []
    waiting: dict[int, int] = {}

    def task_of(number: int) -> Callable[[], None]:
        return lambda: run.append(number)

    for what, value in history:
        if what == "add":
            number = len(entries)
            waiting[number] = now_ms + value
            entries.append(timer.add(value, task_of(number)))
        elif what == "advance":
            clock.advance(value)
            now_ms += value
            timer.advance()
        elif entries:
            number = value % len(entries)
            cancelled = timer.cancel(entries[number])
            assert cancelled == (number in waiting and number not in run)
            if cancelled:
                del waiting[number]
        assert len(run) == len(set(run)), "a task ran twice"
        for number in run:
            assert waiting.get(number, now_ms) - tick_ms <= now_ms, "a task ran early"
        late = [n for n, due_ms in waiting.items() if n not in run and due_ms + tick_ms <= now_ms]
        if what == "advance":
            assert not late, "a task was due and did not run"
        assert len(timer) == len([n for n in waiting if n not in run])


def test_an_idle_timer_has_nothing_to_wake_for() -> None:
    clock = MockClock()
    timer = SystemTimer(clock, lambda task: task())
    assert timer.next_expiration_ms() is None
    timer.add(500, lambda: None)
    due_ms = timer.next_expiration_ms()
    assert due_ms is not None
    assert 0 < due_ms - clock.nanoseconds() // 1_000_000 <= 500
