"""The scheduler with real threads (waiting on events, never on time) and its mock."""

import logging
import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.scheduler import ThreadScheduler
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

PATIENCE_SECONDS = 10


@pytest.fixture
def scheduler() -> Iterator[ThreadScheduler]:
    scheduler = ThreadScheduler(2, SystemClock())
    yield scheduler
    scheduler.shutdown()


def test_tasks_run_on_named_threads_after_the_start(scheduler: ThreadScheduler) -> None:
    ran = threading.Event()
    names: list[str] = []

    def task() -> None:
        names.append(threading.current_thread().name)
        ran.set()

    scheduler.schedule("before start", task)
    assert not ran.is_set()
    scheduler.start()
    assert ran.wait(PATIENCE_SECONDS)
    assert names[0] in ("scheduler-0", "scheduler-1")


def test_earlier_tasks_run_first() -> None:
    scheduler = ThreadScheduler(1, SystemClock())
    order: list[str] = []
    done = threading.Event()
    scheduler.schedule("last", done.set, delay_ms=30)
    scheduler.schedule("second", lambda: order.append("second"), delay_ms=20)
    scheduler.schedule("first", lambda: order.append("first"))
    scheduler.start()
    assert done.wait(PATIENCE_SECONDS)
    scheduler.shutdown()
    assert order == ["first", "second"]


def test_a_periodic_task_survives_its_exceptions(scheduler: ThreadScheduler, caplog: pytest.LogCaptureFixture) -> None:
    runs = threading.Semaphore(0)

    def task() -> None:
        runs.release()
        raise ValueError("no luck")

    with caplog.at_level(logging.ERROR):
        scheduler.schedule("unlucky", task, period_ms=1)
        scheduler.start()
        for _ in range(3):
            assert runs.acquire(timeout=PATIENCE_SECONDS)
    assert "uncaught exception in scheduled task unlucky" in caplog.text


def test_cancel() -> None:
    scheduler = ThreadScheduler(1, SystemClock())
    ran: list[str] = []
    done = threading.Event()
    cancelled = scheduler.schedule("cancelled", lambda: ran.append("cancelled"))
    assert cancelled.cancel()
    assert not cancelled.cancel()
    finished = scheduler.schedule("finished", lambda: ran.append("finished"))
    scheduler.schedule("last", done.set, delay_ms=1)
    scheduler.start()
    assert done.wait(PATIENCE_SECONDS)
    scheduler.shutdown()
    assert ran == ["finished"]
    assert not finished.cancel()


def test_a_periodic_task_may_cancel_itself() -> None:
    scheduler = ThreadScheduler(1, SystemClock())
    runs: list[bool] = []
    done = threading.Event()
    task = scheduler.schedule("once", lambda: runs.append(task.cancel()), period_ms=0)
    scheduler.schedule("last", done.set, delay_ms=20)
    scheduler.start()
    assert done.wait(PATIENCE_SECONDS)
    scheduler.shutdown()
    assert runs == [True]


def test_shutdown_waits_for_running_tasks_and_drops_the_rest() -> None:
    scheduler = ThreadScheduler(1, SystemClock())
    started, go, finished = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        go.wait(PATIENCE_SECONDS)
        finished.set()

    scheduler.schedule("slow", slow)
    later = scheduler.schedule("later", pytest.fail, delay_ms=60_000)
    scheduler.start()
    assert started.wait(PATIENCE_SECONDS)
    stopper = threading.Thread(target=scheduler.shutdown)
    stopper.start()
    go.set()
    stopper.join(PATIENCE_SECONDS)
    assert finished.is_set()
    assert not later.cancel()
    assert not scheduler.schedule("too late", pytest.fail).cancel()
    scheduler.shutdown()
    with pytest.raises(RuntimeError):
        scheduler.start()


def test_shutdown_from_a_task_does_not_wait_for_itself() -> None:
    scheduler = ThreadScheduler(1, SystemClock())
    done = threading.Event()

    def stop() -> None:
        scheduler.shutdown()
        done.set()

    scheduler.schedule("stop", stop)
    scheduler.start()
    assert done.wait(PATIENCE_SECONDS)


def test_mock_scheduler_runs_what_is_due_in_order() -> None:
    clock = MockClock()
    scheduler = MockScheduler(clock)
    ran: list[str] = []
    scheduler.schedule("late", lambda: ran.append("late"), delay_ms=10)
    scheduler.schedule("periodic", lambda: ran.append("periodic"), delay_ms=2, period_ms=4)
    assert scheduler.tick() == 0
    assert scheduler.tick(2) == 1
    assert scheduler.tick(4) == 1
    assert scheduler.tick(4) == 2
    assert sorted(ran) == ["late", "periodic", "periodic", "periodic"]
    assert scheduler.waiting == ["periodic"]


class CountingClock:
    """A clock that counts: every thread that wakes reads the time at least once."""

    def __init__(self) -> None:
        self.reads = 0

    def nanoseconds(self) -> int:
        self.reads += 1
        return time.monotonic_ns()

    def milliseconds(self) -> int:
        return time.time_ns() // 1_000_000


def test_a_task_does_not_wake_every_thread() -> None:
    clock, runs, threads = CountingClock(), 50, 20
    scheduler = ThreadScheduler(threads, clock)
    done = threading.Semaphore(0)
    scheduler.start()
    scheduler.schedule("periodic", done.release, period_ms=2)
    for _ in range(runs):
        assert done.acquire(timeout=PATIENCE_SECONDS)
    scheduler.shutdown()
    assert clock.reads < runs * threads / 2


def test_no_task_is_forgotten_whoever_waits_for_the_first() -> None:
    """Tasks that become due earlier than those waited for, cancelled ones, and tasks that schedule others."""
    random = Random(17)
    scheduler = ThreadScheduler(4, SystemClock())
    ran = threading.Semaphore(0)

    def task() -> None:
        scheduler.schedule("second", ran.release, delay_ms=random.choice([0, 1, 5, 20]))

    scheduler.start()
    rounds, tasks = 20, 15
    for _ in range(rounds):
        for _ in range(tasks):
            scheduler.schedule("cancelled", ran.release, delay_ms=random.choice([1, 10])).cancel()
            scheduler.schedule("first", task, delay_ms=random.choice([0, 0, 1, 3, 10, 30]))
        for _ in range(tasks):
            assert ran.acquire(timeout=PATIENCE_SECONDS)
    scheduler.shutdown()


def test_it_is_resized_while_tasks_run(scheduler: ThreadScheduler) -> None:
    """Surplus threads end with their task, those that come back are not doubled, and no task is lost."""

    def names(count: int) -> set[str]:
        """The threads that `count` tasks which wait for one another run on."""
        together = threading.Barrier(count + 1)
        seen: list[str] = []

        def task() -> None:
            seen.append(threading.current_thread().name)
            together.wait(PATIENCE_SECONDS)

        for _ in range(count):
            scheduler.schedule("together", task)
        together.wait(PATIENCE_SECONDS)
        return set(seen)

    scheduler.start()
    scheduler.resize(4)
    assert names(4) == {f"scheduler-{number}" for number in range(4)}
    resized = threading.Event()

    def shrink() -> None:
        scheduler.resize(1)
        resized.set()

    scheduler.schedule("shrinks itself", shrink)
    assert resized.wait(PATIENCE_SECONDS)
    scheduler.resize(3)
    assert names(3) <= {f"scheduler-{number}" for number in range(4)}
    scheduler.resize(1)
    assert len(names(1)) == 1
    with pytest.raises(ValueError, match="needs at least one thread"):
        scheduler.resize(0)
    scheduler.shutdown()
    scheduler.resize(5)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("scheduler-")]
