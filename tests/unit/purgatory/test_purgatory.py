"""Delayed operations complete exactly once, lose no wake-up, and leave nothing behind."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory
from barnabas.purgatory.timer import ExpirationExecutor, SystemTimer
from barnabas.runtime.clock import SystemClock
from tests.support.mock_clock import MockClock


class Waiting(DelayedOperation):
    """Completes when its flag is set; counts how often it was completed and expired."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.completions = 0
        self.expirations = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


def make_purgatory(clock: MockClock) -> tuple[DelayedOperationPurgatory[Waiting], SystemTimer]:
    timer = SystemTimer(clock, lambda task: task())
    return DelayedOperationPurgatory("test", timer), timer


def test_completes_at_once_without_a_timer_entry() -> None:
    purgatory, timer = make_purgatory(MockClock())
    operation = Waiting(1000)
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.completions == 1
    assert len(timer) == 0
    assert "a" not in purgatory.watchers


def test_a_change_completes_what_waits_for_its_key_only() -> None:
    purgatory, timer = make_purgatory(MockClock())
    first, second = Waiting(1000), Waiting(1000)
    assert not purgatory.try_complete_else_watch(first, ["a", "b"])
    assert not purgatory.try_complete_else_watch(second, ["c"])
    first.ready = second.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert (first.completions, second.completions) == (1, 0)
    assert len(timer) == 1
    assert purgatory.check_and_complete("a") == 0
    assert "a" not in purgatory.watchers


def test_a_time_out_completes_and_is_told_so() -> None:
    clock = MockClock()
    purgatory, timer = make_purgatory(clock)
    operation = Waiting(300)
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(299)
    timer.advance()
    assert not operation.is_completed
    clock.advance(2)
    timer.advance()
    assert (operation.completions, operation.expirations) == (1, 1)


def test_a_change_between_the_first_try_and_the_watch_is_not_lost() -> None:
    class ReadyWhenWatched(Waiting):
        tries = 0

        def try_complete(self) -> bool:
            self.tries += 1
            return self.tries > 1 and self.force_complete()

    purgatory, _ = make_purgatory(MockClock())
    assert purgatory.try_complete_else_watch(ReadyWhenWatched(1000), ["a"])


def test_completed_operations_are_purged() -> None:
    clock = MockClock()
    timer = SystemTimer(clock, lambda task: task())
    purgatory: DelayedOperationPurgatory[Waiting] = DelayedOperationPurgatory("test", timer, purge_interval=10)
    for _ in range(100):
        operation = Waiting(1000)
        purgatory.try_complete_else_watch(operation, ["busy", "quiet"])
        operation.ready = True
        purgatory.check_and_complete("busy")
    assert purgatory.watched <= 12
    assert len(timer) == 0


def test_those_who_wait_long_are_seldom_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    sweep = DelayedOperationPurgatory._sweep

    def counted_sweep(self: Any, *arguments: Any) -> int:
        nonlocal looks
        looks += 1
        return sweep(self, *arguments)

    monkeypatch.setattr(DelayedOperationPurgatory, "_sweep", counted_sweep)
    timer = SystemTimer(MockClock(), lambda task: task())
    purgatory: DelayedOperationPurgatory[Waiting] = DelayedOperationPurgatory("test", timer, purge_interval=10)
    for number in range(2000):
        purgatory.try_complete_else_watch(Waiting(100_000), [number])
    assert looks < 2 * 2000


def test_shutdown_answers_everybody() -> None:
    purgatory, _ = make_purgatory(MockClock())
    operations = [Waiting(10_000) for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.shutdown()
    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert purgatory.watched == 0


def test_exactly_once_under_racing_completers_and_timeouts() -> None:
    """Four threads set conditions and check keys while a real timer expires: nobody completes twice or never."""
    chance = random.Random(7)
    actions = ActionQueue()
    executor = ExpirationExecutor(actions)
    timer = SystemTimer(SystemClock(), executor.execute)
    executor.start()
    timer.start()
    purgatory: DelayedOperationPurgatory[Waiting] = DelayedOperationPurgatory("race", timer, purge_interval=50)
    operations = [Waiting(chance.choice([1, 2, 5, 20])) for _ in range(2000)]
    keys = [f"key-{number}" for number in range(5)]
    done = threading.Event()

    def complete() -> None:
        own = random.Random(threading.get_ident())
        while not done.is_set():
            own.choice(operations).ready = True
            purgatory.check_and_complete(own.choice(keys))

    completers = [threading.Thread(target=complete) for _ in range(4)]
    for thread in completers:
        thread.start()
    for operation in operations:
        purgatory.try_complete_else_watch(operation, chance.sample(keys, 2))
    finished = threading.Event()
    timer.add(200, finished.set)
    assert finished.wait(30)
    done.set()
    for thread in completers:
        thread.join()
    timer.shutdown()
    executor.shutdown()
    assert [operation.completions for operation in operations] == [1] * len(operations)
    assert len(timer) == 0


def test_nobody_is_forgotten_when_the_purgatory_shuts_down_meanwhile() -> None:
    """Threads register operations while another shuts the purgatory down; their timers never run."""
    for round_number in range(20):
        purgatory, timer = make_purgatory(MockClock())
        operations = [Waiting(10_000) for _ in range(80)]
        begin = threading.Barrier(5)

        def register(
            own: list[Waiting],
            number: int,
            purgatory: DelayedOperationPurgatory[Waiting] = purgatory,
            begin: threading.Barrier = begin,
        ) -> None:
            begin.wait()
            for operation in own:
                purgatory.try_complete_else_watch(operation, ["shared", f"own-{number}"])

        threads = [threading.Thread(target=register, args=(operations[number::4], number)) for number in range(4)]
        for thread in threads:
            thread.start()
        begin.wait()
        threading.Event().wait(round_number / 20_000)
        purgatory.shutdown()
        for thread in threads:
            thread.join()
        assert [operation.completions for operation in operations] == [1] * len(operations)
        assert len(timer) == 0


# -- futures


def test_a_request_is_answered_when_its_last_future_is_done() -> None:
    timer = SystemTimer(MockClock(), lambda task: task())
    purgatory = DelayedFuturePurgatory("test", timer)
    answered: list[str] = []
    first: Future[None] = Future()
    second: Future[None] = Future()
    purgatory.when_done(1000, [first, second], lambda: answered.append("both"))
    other: Future[None] = Future()
    purgatory.when_done(1000, [other], lambda: answered.append("other"))
    second.set_exception(RuntimeError("a defect"))
    assert answered == []
    assert purgatory.operations.delayed == 2
    first.set_result(None)
    assert answered == ["both"]
    other.set_result(None)
    assert answered == ["both", "other"]
    assert (purgatory.operations.watched, len(timer)) == (0, 0)


def test_futures_that_are_done_are_answered_at_once_and_pending_ones_when_their_time_is_up() -> None:
    clock = MockClock()
    timer = SystemTimer(clock, lambda task: task())
    purgatory = DelayedFuturePurgatory("test", timer)
    done: Future[None] = Future()
    done.set_result(None)
    answered: list[str] = []
    purgatory.when_done(1000, [done], lambda: answered.append("done"))
    assert answered == ["done"]
    late: Future[None] = Future()
    purgatory.when_done(1000, [late], lambda: answered.append("late"))
    clock.advance(1001)
    timer.advance()
    assert answered == ["done", "late"]
    late.set_result(None)
    assert answered == ["done", "late"], "once"


# -- against a model

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
