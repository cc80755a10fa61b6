"""A metadata store without threads: batches run on the calling thread, watches when the test says so.

Several sessions share one table of znodes (sqlite3 in memory), as brokers share a ZooKeeper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from barnabas.runtime.clock import Clock
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import Operation, Outcome, SessionListener, SessionState, Store
from barnabas.zk.store.watches import FiredWatch
from barnabas.zk.store.znode_table import ZnodeTable, open_database


class InlineStore:
    """The shared table, and the watches that wait for `deliver`."""

    def __init__(self, clock: Clock, directory: str | None = None) -> None:
        self.table = ZnodeTable(open_database(directory), clock)
        self.table.delete_ephemerals()
        self.pending: deque[Callable[[], None]] = deque()
        self._sessions = 0

    def new_session(self) -> InlineSession:
        """Another broker's session."""
        self._sessions += 1
        return InlineSession(self, self._sessions)

    def next_session_id(self) -> int:
        self._sessions += 1
        return self._sessions

    def queue(self, fired: list[FiredWatch]) -> None:
        for _, watch, event in fired:
            self.pending.append(lambda watch=watch, event=event: watch(event))  # type: ignore[misc]

    def deliver(self) -> int:
        """Call the watches that fired, and those these cause; how many."""
        called = 0
        while self.pending:
            self.pending.popleft()()
            called += 1
        return called


class InlineSession(Store):
    """One session. `before_batch`, if set, runs once before the next batch: what another broker does in between."""

    def __init__(self, store: InlineStore, session_id: int) -> None:
        self.store = store
        self.before_batch: Callable[[], None] | None = None
        self.closed = False
        self._session_id = session_id
        self._listeners: list[SessionListener] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        future: Future[list[Outcome]] = Future()
        if self.closed:
            future.set_exception(StoreUnavailableError("", "closed"))
            return future
        if self.before_batch is not None:
            action, self.before_batch = self.before_batch, None
            action()
        outcomes, fired = self.store.table.apply(self._session_id, operations)
        self.store.queue(fired)
        future.set_result(outcomes)
        return future

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def expire(self, *, tells_at_once: bool = False) -> None:
        """End the session and begin another. tells_at_once: nothing uses the new session before listeners have heard
        of the end, as with a ZookeeperStore; they hear of the new session later."""
        fired = self.store.table.end_session(self._session_id)
        self._session_id = self.store.next_session_id()
        if tells_at_once:
            for listener in self._listeners:
                listener(SessionState.EXPIRED)
        for state in (SessionState.RECONNECTED,) if tells_at_once else (SessionState.EXPIRED, SessionState.RECONNECTED):
            for listener in self._listeners:
                self.store.pending.append(lambda listener=listener, state=state: listener(state))  # type: ignore[misc]
        self.store.queue(fired)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.store.queue(self.store.table.end_session(self._session_id))
