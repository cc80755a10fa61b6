"""Where delayed operations wait, indexed by the keys whose changes may complete them.

Called by the replica layer, the admin handlers and the coordinators, from any thread. `_lock` guards the creation
and removal of watch lists; each watch list has its own lock; neither is held while an operation is tried.
Reading which keys are watched takes no lock: a watcher tries once more after it registered, so a state change
either sees the watcher or is seen by it.

Kafka: org.apache.kafka.server.purgatory.DelayedOperationPurgatory.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.timer import Timer

T = TypeVar("T", bound=DelayedOperation)


class _Watchers(Generic[T]):
    """The operations that wait for one key. `closed`: it was removed from the index, and takes no more."""

    __slots__ = ("closed", "lock", "operations")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.operations: list[T] = []
        self.closed = False


class DelayedOperationPurgatory(Generic[T]):
    """One kind of waiting operation, by name ("Produce", "Fetch", ...).

    purge_interval: completed operations that are still on watch lists beyond this number, or beyond the number of those
    that wait, are swept out; until then they only cost memory, and a sweep looks at all that wait.
    """

    def __init__(self, name: str, timer: Timer, *, purge_interval: int = 1000) -> None:
        self.name = name
        self._timer = timer
        self._purge_interval = self._purge_at = purge_interval
        self._lock = threading.Lock()
        self.watchers: dict[Hashable, _Watchers[T]] = {}
        """Watch lists by key. Others only ask whether a key is in it (or it is empty), without a lock; it stays the
        same object."""
        self._added_since_purge = 0
        self._is_shut_down = False

    def try_complete_else_watch(self, operation: T, keys: Iterable[Hashable]) -> bool:
        """Complete `operation` if its condition holds, else watch every key and start its timeout.

        True when it is completed already. Loses no wake-up: see `safe_try_complete_or_else`.
        """
        if operation.safe_try_complete_or_else(lambda: self._watch(operation, keys)):
            return True
        operation.start_timer(self._timer)
        self._purge_if_due()
        if self._is_shut_down:  # and may have been before it was watched: then nobody else would complete it
            operation.expire()
        return operation.is_completed

    def watched_keys(self) -> list[Hashable]:
        """The keys something waits for, at this moment."""
        with self._lock:
            return list(self.watchers)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation that waits for `key`; returns how many this call completed."""
        watchers = self.watchers.get(key)
        if watchers is None:
            return 0
        with watchers.lock:
            candidates = list(watchers.operations)
        completed = done = 0
        for operation in candidates:
            if operation.is_completed:
                done += 1
            elif operation.safe_try_complete():
                completed += 1
        if completed or done:
            self._sweep(key, watchers)
        return completed

    @property
    def watched(self) -> int:
        """Entries on all watch lists: an operation counts once per key, completed ones until they are purged.

        Kafka's metric PurgatorySize.
        """
        with self._lock:
            return sum(len(watchers.operations) for watchers in self.watchers.values())

    @property
    def delayed(self) -> int:
        """Operations that wait, each counted once. Kafka's metric NumDelayedOperations."""
        with self._lock:
            lists = [watchers.operations for watchers in self.watchers.values()]
        return len({id(operation) for waiting in lists for operation in list(waiting) if not operation.is_completed})

    def purge_completed(self) -> int:
        """Sweep completed operations out of all watch lists; returns how many entries that freed."""
        with self._lock:
            items = list(self.watchers.items())
            self._added_since_purge = 0
        freed = sum(self._sweep(key, watchers) for key, watchers in items)
        # Whoever waits long is not looked at again and again because others come.
        self._purge_at = max(self._purge_interval, sum(len(watchers.operations) for _, watchers in items))
        return freed

    def shutdown(self) -> None:
        """Complete everything that still waits, as if its time were up, so that every client gets an answer."""
        with self._lock:
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
            while not operation.is_completed:
                with self._lock:
                    watchers = self.watchers.get(key)
                    if watchers is None:
                        watchers = self.watchers[key] = _Watchers()
                    self._added_since_purge += 1
                with watchers.lock:
                    if not watchers.closed:
                        watchers.operations.append(operation)
                        break

    def _sweep(self, key: Hashable, watchers: _Watchers[T]) -> int:
        with self._lock, watchers.lock:
            before = len(watchers.operations)
            watchers.operations = [operation for operation in watchers.operations if not operation.is_completed]
            if not watchers.operations and self.watchers.get(key) is watchers:
                watchers.closed = True
                del self.watchers[key]
            return before - len(watchers.operations)

    def _purge_if_due(self) -> None:
        if self._added_since_purge > self._purge_at:
            self.purge_completed()
