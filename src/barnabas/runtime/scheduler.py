"""The scheduler, which runs tasks later, once or periodically, on a few background threads.

Used by storage (flush, retention, checkpoints), replica (ISR expiry) and metadata. One condition variable guards the
heap of due times; tasks run without it. Of the threads that have nothing to do, one waits for the first due time, the
others until they are notified: a task wakes one thread, not all of them. Threads are `scheduler-<n>`. Tests use
`tests/support/mock_scheduler.py`.
Kafka: KafkaScheduler.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from typing import Protocol

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

logger = logging.getLogger(__name__)

Task = Callable[[], None]


class ScheduledTask(Protocol):
    """A task that waits for its time."""

    def cancel(self) -> bool:
        """Keep the task from running again. Returns False if it was cancelled before, or would not have run again.

        A run that has begun is not interrupted.
        """


class Scheduler(Protocol):
    """The part that runs tasks later."""

    def start(self) -> None:
        """Begin to run tasks. Tasks scheduled before wait until then."""

    def shutdown(self) -> None:
        """Drop waiting tasks, wait for running ones. From then on `schedule` returns cancelled tasks."""

    def schedule(self, name: str, task: Task, *, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` after `delay_ms`, and, unless `period_ms` is negative, every `period_ms` from then on.

        Runs of one task never overlap. A run that is missed because the one before took too long is skipped.
        An exception in a task is logged with `name`; a periodic task goes on.
        """


class _Entry:
    """One scheduled task. All fields are guarded by the scheduler's condition."""

    __slots__ = ("_scheduler", "cancelled", "due_ns", "finished", "name", "number", "period_ms", "task")

    def __init__(self, scheduler: ThreadScheduler, name: str, task: Task, due_ns: int, period_ms: int) -> None:
        self._scheduler = scheduler
        self.name = name
        self.task = task
        self.due_ns = due_ns
        self.period_ms = period_ms
        self.number = 0
        self.cancelled = False
        self.finished = False

    def __lt__(self, other: _Entry) -> bool:
        return (self.due_ns, self.number) < (other.due_ns, other.number)

    def cancel(self) -> bool:
        """Keep the task from running again. Returns False if it would not have run again."""
        return self._scheduler.cancel_entry(self)


class ThreadScheduler:
    """A heap of tasks, and `threads` daemon threads that run what is due."""

    def __init__(self, threads: int, clock: Clock) -> None:
        """Raises ValueError for less than one thread."""
        if threads < 1:
            raise ValueError(f"a scheduler needs at least one thread, not {threads}")
        self._clock = clock
        self._changed = threading.Condition()
        self._heap: list[_Entry] = []
        self._numbers = 0
        self._state = "new"  # new -> running -> stopped
        self._wanted = threads
        self._running: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._waits_until_ns: int | None = None
        """The due time that a thread waits for; None: no thread waits for a time."""

    def start(self) -> None:
        """Begin to run tasks. Raises RuntimeError for a second start, and for one after shutdown."""
        with self._changed:
            if self._state != "new":
                raise RuntimeError(f"this scheduler is {self._state}, it cannot be started")
            self._state = "running"
            self._start_threads()

    def resize(self, threads: int) -> None:
        """Set the number of threads; surplus ones end, from the last, when their task is done.

        Any thread may call, a scheduler's too. Nothing happens after shutdown. Raises ValueError for less than one.
        """
        if threads < 1:
            raise ValueError(f"a scheduler needs at least one thread, not {threads}")
        with self._changed:
            if self._state == "stopped":
                return
            logger.info("Resizing the scheduler's threads from %d to %d", self._wanted, threads)
            self._wanted = threads
            if self._state == "running":
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                self._start_threads()
            self._changed.notify_all()

    def shutdown(self) -> None:
        """Drop waiting tasks, wait for running ones. Harmless when called twice or before the start."""
        with self._changed:
            was_running = self._state == "running"
            self._state = "stopped"
            for entry in self._heap:
                entry.cancelled = True
            self._heap.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        if was_running:
            for thread in threads:
                # A task may shut its own scheduler down; it cannot wait for itself.
                if thread is not threading.current_thread():
                    thread.join()

    def schedule(self, name: str, task: Task, *, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        """Run `task` after `delay_ms`, and again every `period_ms` unless that is negative."""
        due_ns = self._clock.nanoseconds() + max(delay_ms, 0) * NANOSECONDS_PER_MILLISECOND
        entry = _Entry(self, name, task, due_ns, period_ms)
        with self._changed:
            if self._state == "stopped":
                entry.cancelled = True
                logger.debug("scheduler is stopped: %s will not run", name)
            else:
                self._push(entry)
        return entry

    def cancel_entry(self, entry: _Entry) -> bool:
        """Cancel an entry. It stays in the heap until its time, which costs less than searching for it."""
        with self._changed:
            if entry.cancelled or entry.finished:
                return False
            entry.cancelled = True
            entry.task = _nothing  # drop what the task refers to
            return True

    def _push(self, entry: _Entry) -> None:
        """Insert an entry; the caller holds the condition."""
        self._numbers += 1
        entry.number = self._numbers
        heapq.heappush(self._heap, entry)
        self._notify_if_unattended()

    def _notify_if_unattended(self) -> None:
        """Wake a thread if none waits for the first due time; the caller holds the condition.

        Java's ScheduledThreadPoolExecutor does the same (DelayedWorkQueue: leader and followers).
        """
        if self._is_unattended():
            self._changed.notify()

    def _is_unattended(self) -> bool:
        return bool(self._heap) and (self._waits_until_ns is None or self._heap[0].due_ns < self._waits_until_ns)

    def _start_threads(self) -> None:
        """Start the threads that are wanted and do not run; the caller holds the condition."""
        for number in range(self._wanted):
            if number not in self._running:
                self._running.add(number)
                thread = threading.Thread(target=self._run, args=(number,), name=f"scheduler-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self, number: int) -> None:
        while (entry := self._take_due(number)) is not None:
            try:
                entry.task()
            except Exception:
                logger.exception("uncaught exception in scheduled task %s", entry.name)
            self._finish(entry)

    def _finish(self, entry: _Entry) -> None:
        """End a run: queue a periodic task again, or mark the task as finished."""
        with self._changed:
            if entry.period_ms < 0:
                entry.finished = True
            elif not entry.cancelled and self._state == "running":
                # From the planned time, so that the period does not drift by the length of each run; but not in the
                # past, so that missed runs do not follow in a burst.
                planned_ns = entry.due_ns + entry.period_ms * NANOSECONDS_PER_MILLISECOND
                entry.due_ns = max(planned_ns, self._clock.nanoseconds())
                self._push(entry)

    def _take_due(self, number: int) -> _Entry | None:
        """Wait for the next due task; None once the scheduler is stopped, or this thread is surplus."""
        with self._changed:
            entry = None
            while entry is None and self._state == "running" and number < self._wanted:
                while self._heap and self._heap[0].cancelled:
                    heapq.heappop(self._heap)
                if self._heap and self._heap[0].due_ns <= self._clock.nanoseconds():
                    entry = heapq.heappop(self._heap)
                else:
                    self._await_change()
            if entry is None:
                self._running.discard(number)
            # This thread no longer waits: the next task needs another, which may have gone to sleep behind this one.
            self._notify_if_unattended()
            return entry

    def _await_change(self) -> None:
        """Wait until the first task is due, or until notified if another thread waits for that.

        `_push`, `resize` and `shutdown` notify, and so does a thread that has stopped waiting for the time.
        """
        if not self._is_unattended():
            self._changed.wait()
            return
        self._waits_until_ns = due_ns = self._heap[0].due_ns
        self._changed.wait((due_ns - self._clock.nanoseconds()) / 1e9)
        if self._waits_until_ns == due_ns:  # a task that is due earlier may have a thread of its own by now
            self._waits_until_ns = None


def _nothing() -> None:
    """Do nothing: the task of a cancelled entry."""
