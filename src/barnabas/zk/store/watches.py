"""The watches of a store: those that are set on each path, those that a change fires, and the thread that calls them.

Both stores have a WatchDelivery; the embedded one has a WatchTable as well, which is ZooKeeper's part otherwise. A
table belongs to one thread, and threads share no more of a delivery than its queue and a flag, so there is no lock.
ZooKeeper: org.apache.zookeeper.server.WatchManager and DataTree, ClientCnxn.EventThread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from barnabas.zk.store.store import SessionListener, SessionState, Watch, WatchEvent, WatchEventType

logger = logging.getLogger(__name__)

# A dict for its order: watches fire in the order in which they were set.
_Watchers = dict[tuple[int, Watch], None]


class FiredWatch(NamedTuple):
    """A watch to call, and the session that has set it."""

    session_id: int
    watch: Watch
    event: WatchEvent


class WatchTable:
    """One-shot watches of all sessions. A watch that is set twice fires once, as in ZooKeeper.

    Owned by the thread that applies operations (`store`). Pure: it calls no watch but returns the watches to call. A
    batch that is rolled back fires nothing: its watches are put back.
    """

    def __init__(self) -> None:
        self._data: dict[str, _Watchers] = {}
        self._children: dict[str, _Watchers] = {}
        self._taken: list[tuple[dict[str, _Watchers], str, _Watchers]] = []
        """The watchers that the current batch has fired: table, path, watchers."""

    def watch_data(self, path: str, session_id: int, watch: Watch) -> None:
        """Watch the data of a path, for GetData and Exists."""
        self._data.setdefault(path, {})[(session_id, watch)] = None

    def watch_children(self, path: str, session_id: int, watch: Watch) -> None:
        """Watch the children of a path, for GetChildren."""
        self._children.setdefault(path, {})[(session_id, watch)] = None

    def created(self, path: str, parent: str) -> list[FiredWatch]:
        """Return the watches that the creation of `path` fires."""
        return [
            *self._fire(WatchEventType.CREATED, path, self._data),
            *self._fire(WatchEventType.CHILDREN_CHANGED, parent, self._children),
        ]

    def changed(self, path: str) -> list[FiredWatch]:
        """Return the watches that a change of the data of `path` fires."""
        return self._fire(WatchEventType.DATA_CHANGED, path, self._data)

    def deleted(self, path: str, parent: str) -> list[FiredWatch]:
        """Return the watches that the deletion of `path` fires. A watch on both data and children fires once."""
        watchers = self._take(self._data, path) | self._take(self._children, path)
        event = WatchEvent(WatchEventType.DELETED, path)
        fired = [FiredWatch(session_id, watch, event) for session_id, watch in watchers]
        return [*fired, *self._fire(WatchEventType.CHILDREN_CHANGED, parent, self._children)]

    def drop_session(self, session_id: int) -> None:
        """Forget the watches of a session that has ended."""
        for table in (self._data, self._children):
            for path in list(table):
                # Taken, not popped: if the end of the session is rolled back, its watches are set again.
                watchers = self._take(table, path)
                kept = {key: None for key in watchers if key[0] != session_id}
                if kept:
                    table[path] = kept

    def committed(self) -> None:
        """Forget the fired watches: the batch was committed."""
        self._taken.clear()

    def rolled_back(self) -> None:
        """Set the fired watches again, before those set since: the batch was rolled back."""
        for table, path, watchers in reversed(self._taken):
            table[path] = watchers | table.get(path, {})
        self._taken.clear()

    def _take(self, table: dict[str, _Watchers], path: str) -> _Watchers:
        watchers = table.pop(path, {})
        if watchers:
            self._taken.append((table, path, watchers))
        return watchers

    def _fire(self, event_type: WatchEventType, path: str, table: dict[str, _Watchers]) -> list[FiredWatch]:
        event = WatchEvent(event_type, path)
        return [FiredWatch(session_id, watch, event) for session_id, watch in self._take(table, path)]


class WatchDelivery:
    """The thread `store-watch` of a store, and its queue: it calls watches and session listeners.

    Any thread queues calls (`put`), before `start` as well. The thread makes them one by one, in order, and never on a
    caller's thread, so that watches and listeners may use the store.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_dropping = False
        self._thread = threading.Thread(target=self._run, name="store-watch", daemon=True)

    def start(self) -> None:
        """Start the thread that calls the watches."""
        self._thread.start()

    def put(self, call: Callable[[], None]) -> None:
        """Have the thread make a call, after those queued before."""
        self._calls.put(call)

    def notify(self, listeners: Iterable[SessionListener], state: SessionState) -> None:
        """Have the thread tell session listeners of a state."""
        for listener in listeners:
            self.put(partial(listener, state))

    def drop(self) -> None:
        """Make no call from now on, of those queued already neither."""
        self._is_dropping = True

    def close(self) -> None:
        """Let the thread make what is queued, unless `drop` was called, and wait for its end. It may not have begun."""
        if not self._thread.is_alive():
            return
        self._calls.put(None)
        # A watch may close the store, and a thread cannot join itself.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._is_dropping:
                continue
            try:
                call()
            except Exception:
                # A defect in one watcher must not keep changes from the others.
                logger.exception("A watch of the metadata store failed")
