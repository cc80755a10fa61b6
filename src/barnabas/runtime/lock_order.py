"""The lock order, and a debug switch that checks it while tests run.

Locks whose order matters are made by `ranked_lock` where their owner is made. With the switch off (always, outside
tests) that is a plain lock of `threading`, and nothing costs anything. With BARNABAS_CHECK_LOCK_ORDER=1 in the
environment a thread that takes them in another order, or completes a delayed operation while it holds one, gets
LockOrderViolation. What each thread holds is thread-local, so this module needs no lock.
"""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import Any

ENVIRONMENT_VARIABLE = "BARNABAS_CHECK_LOCK_ORDER"


class LockRank(IntEnum):
    """Outermost first (docs/architecture.md): a thread may only take a lock of a higher rank than those it holds."""

    GROUP = 0
    REPLICA_STATE_CHANGE = 1
    PARTITION = 2
    LOG = 3
    FLUSH = 4


class LockOrderViolation(AssertionError):
    """Two threads that do this could wait for each other for ever."""


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[RankedLock] = []


_held = _Held()


def is_checking() -> bool:
    """Whether the switch is on."""
    return os.environ.get(ENVIRONMENT_VARIABLE) == "1"


def ranked_lock(rank: LockRank, *, reentrant: bool = False) -> Any:
    """A lock of this rank: a plain one, or with the switch on one that checks."""
    plain = threading.RLock() if reentrant else threading.Lock()
    return RankedLock(rank, plain) if is_checking() else plain


def check_no_lock_held(doing: str) -> None:
    """With the switch on: LockOrderViolation if this thread holds any ranked lock while it is `doing` something."""
    if _held.locks:
        names = ", ".join(lock.rank.name for lock in _held.locks)
        raise LockOrderViolation(f"{doing} while holding {names}")


class RankedLock:
    """A lock that knows its place. Only with the switch on."""

    def __init__(self, rank: LockRank, lock: Any) -> None:
        self.rank = rank
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See threading.Lock. Taking a re-entrant lock again is no new step in the order."""
        held = _held.locks
        if self not in held:
            higher = [lock.rank.name for lock in held if lock.rank >= self.rank]
            if higher:
                raise LockOrderViolation(f"{self.rank.name} is taken while holding {', '.join(higher)}")
        acquired = bool(self._lock.acquire(blocking, timeout))
        if acquired:
            held.append(self)
        return acquired

    def release(self) -> None:
        """See threading.Lock."""
        self._lock.release()
        held = _held.locks
        del held[len(held) - 1 - held[::-1].index(self)]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
