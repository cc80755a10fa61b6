"""The faults that are installed in a broker, with their counts: which one hits a request.

Made by `fault_layer`. FaultInjector asks on every thread that runs requests, `control_channel` installs and removes on
its own. The list of faults is a tuple, replaced by one assignment, so that a request without a fault takes no lock.
`_lock` guards the replacement, the counts, and the set of faults whose counts have changed. Knows no time and no
network; tests need neither.

Two rules decide:

- A fault counts every request that its plan matches, whatever the other faults do. So `Nth(3)` means the third such
  request, even if another fault has hit the first.
- Of the faults that are due, the one that was added first hits; a request is hit once at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from barnabas.faults.fault_plan import Action, FaultPlan, RequestFacts


class Counts(NamedTuple):
    """The requests that a fault's plan matched, and those of them that the fault hit."""

    calls: int = 0
    hits: int = 0


NO_COUNTS: Final = Counts()


class InstalledFault:
    """A plan with its counts. counts: those to begin with, which a broker that is started again takes over."""

    __slots__ = ("calls", "fault_id", "hits", "is_removed", "plan")

    def __init__(self, fault_id: int, plan: FaultPlan, counts: Counts = NO_COUNTS) -> None:
        self.fault_id = fault_id
        self.plan = plan
        self.calls, self.hits = counts
        self.is_removed = False


class DueFault(NamedTuple):
    """The fault that hits a request."""

    fault_id: int
    action: Action


class FaultTable:
    """The installed faults, in the order in which they were added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: tuple[InstalledFault, ...] = ()
        self._changed: set[InstalledFault] = set()
        """The faults whose counts were not taken since they changed, the removed ones too."""
        self.on_change: Callable[[], None] = lambda: None
        """Called without the lock whenever counts have changed, on the thread of the request."""

    def due(self, request: RequestFacts) -> DueFault | None:
        """Count the request for every plan that matches it; return the fault that hits it, or None."""
        faults = self._faults
        if not faults:
            return None
        matching = [fault for fault in faults if fault.plan.matches(request)]
        if not matching:
            return None
        due: InstalledFault | None = None
        with self._lock:
            for fault in matching:
                if fault.is_removed:
                    continue  # between the match and the lock: the counts of a removed fault are final
                fault.calls += 1
                self._changed.add(fault)
                if due is None and fault.plan.calls.includes(fault.calls):
                    fault.hits += 1
                    due = fault
        self.on_change()
        return None if due is None else DueFault(due.fault_id, due.plan.action)

    def install(self, faults: Iterable[InstalledFault]) -> None:
        """Add faults behind those that are there."""
        with self._lock:
            self._faults = (*self._faults, *faults)

    def remove(self, fault_ids: Iterable[int]) -> None:
        """Remove the faults with these ids. Requests that they have hit are not affected."""
        removed = set(fault_ids)
        with self._lock:
            self._remove([fault for fault in self._faults if fault.fault_id in removed])

    def remove_all(self) -> None:
        """Remove every fault."""
        with self._lock:
            self._remove(self._faults)

    def take_changes(self) -> dict[int, Counts]:
        """Return the counts, by id, of the faults whose counts have changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
            return {fault.fault_id: Counts(fault.calls, fault.hits) for fault in changed}

    def _remove(self, faults: Iterable[InstalledFault]) -> None:
        for fault in faults:
            fault.is_removed = True
        self._faults = tuple(fault for fault in self._faults if not fault.is_removed)
