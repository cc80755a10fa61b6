"""The timer: a timing wheel, a heap of its non-empty buckets, and the threads that wait for tasks and run them.

Called by `DelayedOperationPurgatory`; any thread may add and cancel. The `timer` thread only advances the wheel. It
passes expired tasks to `execute`, in the broker the `expiration-executor` thread, so that a slow completion never
delays other timeouts. `_lock`, which is that of `_changed`, guards wheel, heap and count; no task is called under it.
Tests call `advance()` with a mock clock and never start the thread.
Kafka: SystemTimer, SystemTimer.taskExecutor, SystemTimerReaper.
"""

from __future__ import annotations

import heapq
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timing_wheel import Bucket, TimerEntry, TimingWheel
from barnabas.runtime.clock import Clock
from barnabas.runtime.locks import Lock

logger = logging.getLogger(__name__)


class SystemTimer:
    """A timer that runs each task once, after a delay, unless the task is cancelled first: a hierarchical timing wheel.

    tick_ms, wheel_size: of the finest wheel (Kafka: 1 ms and 20 buckets). Time is the clock's monotonic time.
    """

    def __init__(
        self, clock: Clock, execute: Callable[[Callable[[], None]], None], *, tick_ms: int = 1, wheel_size: int = 20
    ) -> None:
        self._nanoseconds = clock.nanoseconds
        self._execute = execute
        # `with` takes the lock itself: a condition's `__enter__` and `__exit__` are calls of Python, for each request.
        lock: Any = Lock()  # of another type in the compiled build, which a condition takes as well
        self._lock: Lock = lock
        self._changed = threading.Condition(lock)
        self._heap: list[tuple[int, Bucket]] = []
        self._count = 0
        self._wheel = TimingWheel(tick_ms, wheel_size, self._now_ms(), self._push)
        self._running = False
        self._runner: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of tasks that wait."""
        return self._count

    def add(self, delay_ms: int, task: Callable[[], None]) -> TimerEntry:
        """Schedule `task`. With a delay of zero or less it is passed to the executor now."""
        entry = TimerEntry(task, self._nanoseconds() // 1_000_000 + delay_ms)
        with self._lock:
            placed = self._wheel.add(entry)
            if placed:
                self._count += 1
        if not placed:
            self._execute(task)
        return entry

    def cancel(self, entry: TimerEntry) -> bool:
        """Remove `entry` in O(1). Its bucket stays in the heap until it expires, which costs at most one wake-up."""
        with self._lock:
            bucket = entry.bucket
            if bucket is None:
                return False
            del bucket.entries[entry]
            entry.bucket = None
            self._count -= 1
            return True

    def advance(self) -> int:
        """Execute every task that has expired by now. Return their number."""
        now_ms = self._now_ms()
        due: list[TimerEntry] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now_ms:
                expiration_ms, bucket = heapq.heappop(self._heap)
                if bucket.expiration_ms != expiration_ms:
                    continue
                self._wheel.advance(expiration_ms)
                # Of a coarse bucket only the entries that have expired are due; `add` moves the others down to a finer
                # wheel.
                due.extend(entry for entry in bucket.take_all() if not self._wheel.add(entry))
            self._count -= len(due)
        for entry in due:
            self._execute(entry.task)
        return len(due)

    def next_expiration_ms(self) -> int | None:
        """Return the monotonic time of the next bucket, or None when no task waits."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def start(self) -> None:
        """Start the `timer` thread."""
        self._running = True
        self._runner = threading.Thread(target=self._run, name="timer", daemon=True)
        self._runner.start()

    def shutdown(self) -> None:
        """Stop the thread. Waiting tasks do not run: the purgatories complete their operations when they shut down."""
        with self._lock:
            self._running = False
            self._changed.notify_all()
        if self._runner is not None:
            self._runner.join()

    def _now_ms(self) -> int:
        return self._nanoseconds() // 1_000_000

    def _push(self, expiration_ms: int, bucket: Bucket) -> None:
        heapq.heappush(self._heap, (expiration_ms, bucket))
        # Only a new first expiration makes the sleep of the `timer` thread too long. The caller holds the lock.
        if self._heap[0][1] is bucket:
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._running:
                    return
                # Below zero after an idle time: the wheel stands behind the clock, so that a new entry falls into a
                # coarse bucket that began in the past. `advance` moves the entry down at once.
                wait_ms = self._heap[0][0] - self._now_ms() if self._heap else None
                if wait_ms is None:
                    self._changed.wait()
                elif wait_ms > 0:
                    self._changed.wait(wait_ms / 1000)
            self.advance()


class ExpirationExecutor:
    """A single worker thread with an unbounded queue (bounded in effect by the number of waiting operations).

    Any thread may submit. The worker holds no lock while it runs a task. It drains the action queue after each task,
    because an expired operation may have moved something that other operations wait for. Kafka has a thread for each
    purgatory (`executor-<purgatory>`); here one serves all.
    """

    def __init__(self, actions: ActionQueue) -> None:
        self._actions = actions
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._runner = threading.Thread(target=self._run, name="expiration-executor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._runner.start()

    def execute(self, task: Callable[[], None]) -> None:
        """Queue `task`; tasks run in the order of submission."""
        self._tasks.put(task)

    def shutdown(self) -> None:
        """Run the queued tasks, then stop."""
        # Queued behind the tasks, each of which holds an answer that a client waits for.
        self._tasks.put(None)
        if self._runner.is_alive():
            self._runner.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                logger.exception("an expired operation failed")
            self._actions.run_all()
