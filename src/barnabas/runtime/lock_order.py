"""The lock order, and a debug switch that checks it while tests run.

Locks whose order matters are made by `ranked_lock` where their owner is made. With the switch off (always, outside
tests) that makes a plain lock of `runtime.locks`, and costs nothing. With BARNABAS_CHECK_LOCK_ORDER=1 in the
environment a thread that takes the locks in another order, or completes a delayed operation while it holds one, gets
LockOrderViolation. The locks that a thread holds are thread-local, so this module needs no lock. Kafka: none.
"""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import Any

from barnabas.runtime.locks import Lock, ReentrantLock

ENVIRONMENT_VARIABLE = "BARNABAS_CHECK_LOCK_ORDER"
CHECKING = os.environ.get(ENVIRONMENT_VARIABLE) == "1" and Lock is threading.Lock
"""Whether the switch is on. Read once: a coordinator makes a lock for each of a hundred thousand ids that it loads. The
compiled build has none: its locks are native, and typed."""


class LockRank(IntEnum):
    """Outermost first (docs/architecture.md): a thread may only take a lock of a higher rank than those it holds."""

    GROUP = 0
    REPLICA_STATE_CHANGE = 1
    REPLICA_FETCHER = 2
    PARTITION = 3
    LOG = 4
    FUTURE_LOG = 5
    FLUSH = 6


class LockOrderViolation(AssertionError):
    """The error for a thread that takes locks in an order in which two threads could deadlock."""


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[RankedLock] = []


_held = _Held()


def ranked_lock(rank: LockRank, *, reentrant: bool = False) -> Any:
    """Make a lock of this rank: a plain lock, or with the switch on one that checks."""
    plain = ReentrantLock() if reentrant else Lock()
    return RankedLock(rank, plain) if CHECKING else plain


def check_no_lock_held(doing: str) -> None:
    """Check that this thread holds no ranked lock. `doing` names the action in the message.

    Raises LockOrderViolation, with the switch on, when the thread holds one.
    """
    if _held.locks:
        names = ", ".join(lock.rank.name for lock in _held.locks)
        raise LockOrderViolation(f"{doing} while holding {names}")


class RankedLock:
    """A lock that checks its place in the order. Made only with the switch on."""

    def __init__(self, rank: LockRank, lock: Any) -> None:
        self.rank = rank
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, as threading.Lock does. Taking a re-entrant lock again is no new step in the order.

        Raises LockOrderViolation when this thread holds a lock of this rank or a higher one.
        """
        # Checked before the lock is taken, so that a test fails at the violation instead of hanging in a deadlock.
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
        """Release the lock, as threading.Lock does. Raises RuntimeError when this thread does not hold it."""
        self._lock.release()
        held = _held.locks
        del held[len(held) - 1 - held[::-1].index(self)]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
