"""The waiting delayed operations, indexed by the keys whose changes may complete them.

Called by the replica layer, the admin handlers and the coordinators, on any thread. `_lock` guards the creation and
removal of watch lists; each watch list has a lock of its own; neither is held while an operation is tried. Reading
which keys are watched takes no lock: an operation is tried once more after it has registered, so that a change of state
either finds the watch or is found by that try.

A produce with acks=all, and the fetch of a follower that has its records at last:

    thread of the produce                         thread of the fetch
    try_complete: the watermark is too low
                                                  the high watermark rises
                                                  check_and_complete(partition): no watch list yet
    _watch: the operation is on the watch list
    try_complete again: completed here, and the
    timeout is never started

In a `DelayedFuturePurgatory` operations wait for futures: for the work of other threads.

Kafka: org.apache.kafka.server.purgatory.DelayedOperationPurgatory, kafka.server.DelayedFuturePurgatory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from barnabas.purgatory.delayed_operation import DelayedFuture, DelayedOperation
from barnabas.purgatory.timer import Timer

T = TypeVar("T", bound=DelayedOperation)


class _Watchers(Generic[T]):
    """The operations that wait for one key. `closed`: the list was removed from the index and accepts no more."""

    __slots__ = ("closed", "lock", "operations")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.operations: list[T] = []
        self.closed = False


class DelayedOperationPurgatory(Generic[T]):
    """The waiting operations of one kind, by name ("Produce", "Fetch", ...).

    purge_interval: how many completed operations may stay on watch lists. A purge removes them when they are more than
    that and more than those that wait. It looks at every waiting operation, while a completed one costs only memory.
    """

    def __init__(self, name: str, timer: Timer, *, purge_interval: int = 1000) -> None:
        self.name = name
        self._timer = timer
        self._purge_interval = self._purge_at = purge_interval
        self._lock = threading.Lock()
        self.watchers: dict[Hashable, _Watchers[T]] = {}
        """The watch lists by key.

        Other modules only ask whether a key is in the dict, or whether the dict is empty, without a lock; the dict
        stays the same object.
        """
        self._added_since_purge = 0
        self._is_shut_down = False

    def try_complete_else_watch(self, operation: T, keys: Iterable[Hashable], *, was_tried: bool = False) -> bool:
        """Complete `operation` if its condition holds, else watch every key and start its timeout.

        was_tried: the caller has just found that the condition does not hold. Returns True when the operation is
        completed already.
        """
        with operation.lock:
            if not was_tried and operation.try_complete():
                return True
            self._watch(operation, keys)
            # Once more: a change between the first try and the watch has woken nobody.
            is_completed = operation.try_complete()
        if self._added_since_purge > self._purge_at:
            self.purge_completed()
        # The timeout starts last: most operations complete in the second try, and never touch the timer.
        if is_completed:
            return True
        operation.start_timer(self._timer)
        # It may have been shut down before the operation was watched: then nothing else would complete it.
        if self._is_shut_down:
            operation.expire()
        return operation.completed.locked()

    def watched_keys(self) -> list[Hashable]:
        """Return the keys with a watch list at this moment."""
        with self._lock:
            return list(self.watchers)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that waits for `key`. Return how many this call completed."""
        watchers = self.watchers.get(key)
        if watchers is None:
            return 0
        # A copy: completing one operation may change this very list, and must not happen under its lock.
        with watchers.lock:
            candidates = list(watchers.operations)
        completed = done = 0
        for operation in candidates:
            if operation.completed.locked():
                done += 1
                continue
            with operation.lock:
                completed += operation.try_complete()
        if completed or done:
            self._sweep(key, watchers)
        return completed

    @property
    def watched(self) -> int:
        """The entries on all watch lists. An operation counts once per key, a completed one until it is purged.

        Kafka's metric PurgatorySize.
        """
        with self._lock:
            return sum(len(watchers.operations) for watchers in self.watchers.values())

    @property
    def delayed(self) -> int:
        """The number of operations that wait. Kafka's metric NumDelayedOperations."""
        with self._lock:
            lists = [watchers.operations for watchers in self.watchers.values()]
        return len({id(operation) for waiting in lists for operation in list(waiting) if not operation.is_completed})

    def purge_completed(self) -> int:
        """Remove completed operations from all watch lists. Return the number of entries removed."""
        with self._lock:
            items = list(self.watchers.items())
            self._added_since_purge = 0
        freed = sum(self._sweep(key, watchers) for key, watchers in items)
        # The bound grows with the number that waits, so that long waits are not scanned again and again.
        self._purge_at = max(self._purge_interval, sum(len(watchers.operations) for _, watchers in items))
        return freed

    def shutdown(self) -> None:
        """Complete every waiting operation as if its time were up, so that every client gets an answer."""
        with self._lock:
            # Set before the lists are taken: an operation that is watched later finds the flag in
            # `try_complete_else_watch`.
            self._is_shut_down = True
            lists = list(self.watchers.values())
            self.watchers.clear()
        for watchers in lists:
            with watchers.lock:
                watchers.closed = True
                operations = list(watchers.operations)
            for operation in operations:
                operation.expire()

    def _watch(self, operation: T, keys: Iterable[Hashable]) -> None:
        for key in keys:
            # A loop: between the look-up and the append another thread may have removed the empty list.
            while not operation.completed.locked() and not self._add(operation, key):
                pass

    def _add(self, operation: T, key: Hashable) -> bool:
        with self._lock:
            watchers = self.watchers.get(key)
            if watchers is None:
                watchers = self.watchers[key] = _Watchers()
            self._added_since_purge += 1
        with watchers.lock:
            if not watchers.closed:
                watchers.operations.append(operation)
            return not watchers.closed

    def _sweep(self, key: Hashable, watchers: _Watchers[T]) -> int:
        # Both locks, the index first: an append of `_watch` between the test for emptiness and `closed` would be lost.
        with self._lock, watchers.lock:
            before = len(watchers.operations)
            watchers.operations = [each for each in watchers.operations if not each.completed.locked()]
            if not watchers.operations and self.watchers.get(key) is watchers:
                watchers.closed = True
                del self.watchers[key]
            return before - len(watchers.operations)


class DelayedFuturePurgatory:
    """Requests that wait for work of another thread, by its futures.

    Kafka: DelayedFuturePurgatory; there a pending future is failed when its time is up, here the answer looks at it.
    """

    _KEY: Final = "futures"

    def __init__(self, name: str, timer: Timer) -> None:
        self.operations: DelayedOperationPurgatory[DelayedFuture] = DelayedOperationPurgatory(name, timer)

    def when_done(self, timeout_ms: int, futures: Sequence[Future[Any]], answer: Callable[[], None]) -> None:
        """Call `answer` when all futures are done, or after `timeout_ms`: now, or on the thread that is last."""
        delayed = DelayedFuture(timeout_ms, futures, answer)
        if not self.operations.try_complete_else_watch(delayed, [self._KEY]):
            for future in futures:
                future.add_done_callback(lambda _: self.operations.check_and_complete(self._KEY))
