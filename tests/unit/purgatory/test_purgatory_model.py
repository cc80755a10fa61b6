"""The purgatory against a model: whatever happens in whatever order, every operation completes once, for its reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from tests.support.mock_clock import MockClock
from tests.unit.purgatory.test_purgatory import Waiting

KEYS = "abc"
keys = st.sampled_from(KEYS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), st.sets(keys, min_size=1), st.integers(min_value=1, max_value=50)),
        st.tuples(st.just("ready"), st.integers(min_value=0, max_value=20)),
        st.tuples(st.just("check"), keys),
        st.tuples(st.just("pass"), st.integers(min_value=0, max_value=30)),
        st.tuples(st.just("purge")),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([1, 3, 1000]))
def test_every_operation_completes_once_for_its_reason(history: list[tuple[object, ...]], purge_interval: int) -> None:
    clock = MockClock()
    timer = SystemTimer(clock, lambda task: task())
    purgatory: DelayedOperationPurgatory[Waiting] = DelayedOperationPurgatory(
        "model", timer, purge_interval=purge_interval
    )
    operations: list[Waiting] = []
    watched_by: dict[Waiting, set[str]] = {}
    due_ms: dict[Waiting, int] = {}
    now_ms = 0
    for what, *arguments in history:
        if what == "watch":
            watched, delay_ms = arguments
            assert isinstance(watched, set)
            assert isinstance(delay_ms, int)
            operation = Waiting(delay_ms)
            operations.append(operation)
            watched_by[operation], due_ms[operation] = watched, now_ms + delay_ms
            assert not purgatory.try_complete_else_watch(operation, sorted(watched))
        elif what == "ready" and operations:
            operations[int(str(arguments[0])) % len(operations)].ready = True
        elif what == "check":
            expected = [
                each for each in operations if each.ready and arguments[0] in watched_by[each] and not each.is_completed
            ]
            assert purgatory.check_and_complete(arguments[0]) == len(expected)
            assert all(each.completions == 1 and each.expirations == 0 for each in expected)
        elif what == "pass":
            passed_ms = int(str(arguments[0]))
            clock.advance(passed_ms)
            now_ms += passed_ms
            timer.advance()
            overdue = [each for each in operations if due_ms[each] + 1 <= now_ms]
            assert all(each.is_completed for each in overdue), "its time was up"
        elif what == "purge":
            purgatory.purge_completed()
            assert purgatory.watched == sum(len(watched_by[each]) for each in operations if not each.is_completed)
        left = [each for each in operations if not each.is_completed]
        assert purgatory.delayed == len(left) == len(timer)
        assert all(each.completions == int(each.is_completed) for each in operations)
    purgatory.shutdown()
    late = Waiting(1000)
    purgatory.try_complete_else_watch(late, KEYS)
    assert [each.completions for each in [*operations, late]] == [1] * (len(operations) + 1)
    assert len(timer) == 0
