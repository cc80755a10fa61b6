"""A scheduler without threads: tasks run on the test's thread when it calls `tick`. Kafka: MockScheduler."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND
from tests.support.mock_clock import MockClock


class MockTask:
    """One scheduled task."""

    def __init__(self, name: str, task: Callable[[], None], due_ns: int, period_ms: int) -> None:
        self.name = name
        self.task = task
        self.due_ns = due_ns
        self.period_ms = period_ms
        self.cancelled = False
        self.finished = False

    def cancel(self) -> bool:
        """See ScheduledTask."""
        if self.cancelled or self.finished:
            return False
        self.cancelled = True
        return True


class MockScheduler:
    """Runs what is due, earliest first; an exception in a task reaches the test."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.tasks: list[MockTask] = []
        self.started = False
        self.stopped = False

    def start(self) -> None:
        """See Scheduler; tasks run at `tick` only."""
        self.started = True

    def shutdown(self) -> None:
        """See Scheduler."""
        self.stopped = True
        for task in self.tasks:
            task.cancel()
        self.tasks.clear()

    def schedule(self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int = -1) -> MockTask:
        """See Scheduler."""
        due_ns = self.clock.nanoseconds() + max(delay_ms, 0) * NANOSECONDS_PER_MILLISECOND
        entry = MockTask(name, task, due_ns, period_ms)
        if self.stopped:
            entry.cancelled = True
        else:
            self.tasks.append(entry)
        return entry

    @property
    def waiting(self) -> list[str]:
        """Names of the tasks that would still run, earliest first."""
        return [entry.name for entry in sorted(self._live(), key=lambda entry: entry.due_ns)]

    def tick(self, advance_ms: float = 0) -> int:
        """Let `advance_ms` pass, then run what is due, and what those tasks make due; returns the number of runs."""
        self.clock.advance(advance_ms)
        runs = 0
        while due := [entry for entry in self._live() if entry.due_ns <= self.clock.nanoseconds()]:
            entry = min(due, key=lambda candidate: candidate.due_ns)
            if entry.period_ms < 0:
                entry.finished = True
                self.tasks.remove(entry)
            else:
                entry.due_ns = max(
                    entry.due_ns + max(entry.period_ms, 1) * NANOSECONDS_PER_MILLISECOND, self.clock.nanoseconds() + 1
                )
            entry.task()
            runs += 1
        return runs

    def _live(self) -> list[MockTask]:
        return [entry for entry in self.tasks if not entry.cancelled]
