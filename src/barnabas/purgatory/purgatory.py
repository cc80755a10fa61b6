"""The waiting delayed operations, indexed by the keys whose changes may complete them.

Called by the replica layer, the admin handlers and the coordinators, on any thread. `_lock` guards the watch lists; it
is never held while an operation is tried. Reading which keys are watched takes no lock: an operation is tried once more
after it has registered, so that a change of state either finds the watch or is found by that try.

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

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from barnabas.purgatory.delayed_operation import DelayedFuture, DelayedOperation
from barnabas.purgatory.timer import SystemTimer
from barnabas.runtime.locks import Lock

T = TypeVar("T", bound=DelayedOperation)


class DelayedOperationPurgatory(Generic[T]):
    """The waiting operations of one kind, by name ("Produce", "Fetch", ...).

    purge_interval: how many completed operations may stay on watch lists. A purge removes them when they are more than
    that and more than those that wait. It looks at every waiting operation, while a completed one costs only memory.
    """

    def __init__(self, name: str, timer: SystemTimer, *, purge_interval: int = 1000) -> None:
        self.name = name
        self._timer = timer
        self._purge_interval = self._purge_at = purge_interval
        self._lock = Lock()
        self.watchers: dict[Hashable, list[T]] = {}
        """The operations that wait, by key; no list is empty.

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
        # A copy: completing one operation may change this very list, and must not happen under the lock.
        with self._lock:
            watching = self.watchers.get(key)
            if watching is None:
                return 0
            candidates = watching.copy()
        completed = done = 0
        for operation in candidates:
            if operation.completed.locked():
                done += 1
                continue
            with operation.lock:
                completed += operation.try_complete()
        if completed or done:
            self._sweep(key)
        return completed

    @property
    def watched(self) -> int:
        """The entries on all watch lists. An operation counts once per key, a completed one until it is purged.

        Kafka's metric PurgatorySize.
        """
        with self._lock:
            return sum([len(watching) for watching in self.watchers.values()])

    @property
    def delayed(self) -> int:
        """The number of operations that wait. Kafka's metric NumDelayedOperations."""
        with self._lock:
            lists = [watching.copy() for watching in self.watchers.values()]
        return len({id(operation) for waiting in lists for operation in waiting if not operation.is_completed})

    def purge_completed(self) -> int:
        """Remove completed operations from all watch lists. Return the number of entries removed."""
        with self._lock:
            keys = list(self.watchers)
            self._added_since_purge = 0
        freed = 0
        # The lock is let go between the lists: there may be thousands.
        for key in keys:
            freed += self._sweep(key)
        # The bound grows with the number that waits, so that long waits are not scanned again and again.
        self._purge_at = max(self._purge_interval, self.watched)
        return freed

    def shutdown(self) -> None:
        """Complete every waiting operation as if its time were up, so that every client gets an answer."""
        with self._lock:
            # Set before the lists are taken: an operation that is watched later finds the flag in
            # `try_complete_else_watch`.
            self._is_shut_down = True
            lists = list(self.watchers.values())
            self.watchers.clear()
        for operations in lists:
            for operation in operations:
                operation.expire()

    def _watch(self, operation: T, keys: Iterable[Hashable]) -> None:
        watchers = self.watchers
        with self._lock:
            for key in keys:
                watching = watchers.get(key)
                if watching is None:
                    watchers[key] = [operation]
                else:
                    watching.append(operation)
                self._added_since_purge += 1

    def _sweep(self, key: Hashable) -> int:
        """Remove the completed operations from one list, and return their number."""
        with self._lock:
            watching = self.watchers.get(key)
            if watching is None:
                return 0
            left = [each for each in watching if not each.completed.locked()]
            if left:
                self.watchers[key] = left
            else:
                del self.watchers[key]
            return len(watching) - len(left)


class DelayedFuturePurgatory:
    """Requests that wait for work of another thread, by its futures.

    Kafka: DelayedFuturePurgatory; there a pending future is failed when its time is up, here the answer looks at it.
    """

    _KEY: Final = "futures"

    def __init__(self, name: str, timer: SystemTimer) -> None:
        self.operations: DelayedOperationPurgatory[DelayedFuture] = DelayedOperationPurgatory(name, timer)

    def when_done(self, timeout_ms: int, futures: Sequence[Future[Any]], answer: Callable[[], None]) -> None:
        """Call `answer` when all futures are done, or after `timeout_ms`: now, or on the thread that is last."""
        delayed = DelayedFuture(timeout_ms, futures, answer)
        if not self.operations.try_complete_else_watch(delayed, [self._KEY]):
            for future in futures:
                future.add_done_callback(self._try)

    def _try(self, _: Future[Any]) -> None:
        self.operations.check_and_complete(self._KEY)
