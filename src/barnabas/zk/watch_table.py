"""Which watches are set on which path, and which of them a change fires.

Owned by the thread that applies operations (`store`), never touched by another, so no lock. Pure: it calls no watch,
it returns what is to be called. ZooKeeper: org.apache.zookeeper.server.WatchManager and DataTree.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.zk.store import Watch, WatchEvent, WatchEventType


class FiredWatch(NamedTuple):
    """A watch to call, on behalf of which session."""

    session_id: int
    watch: Watch
    event: WatchEvent


_Watchers = dict[tuple[int, Watch], None]  # a dict for its order: watches fire in the order they were set


class WatchTable:
    """One-shot watches of all sessions. Setting one twice is setting it once, as in ZooKeeper."""

    def __init__(self) -> None:
        self._data: dict[str, _Watchers] = {}
        self._children: dict[str, _Watchers] = {}

    def watch_data(self, path: str, session_id: int, watch: Watch) -> None:
        """Set by GetData and Exists."""
        self._data.setdefault(path, {})[(session_id, watch)] = None

    def watch_children(self, path: str, session_id: int, watch: Watch) -> None:
        """Set by GetChildren."""
        self._children.setdefault(path, {})[(session_id, watch)] = None

    def created(self, path: str, parent: str) -> list[FiredWatch]:
        """`path` came into being."""
        return [
            *self._fire(WatchEventType.CREATED, path, self._data),
            *self._fire(WatchEventType.CHILDREN_CHANGED, parent, self._children),
        ]

    def changed(self, path: str) -> list[FiredWatch]:
        """The data of `path` was set."""
        return self._fire(WatchEventType.DATA_CHANGED, path, self._data)

    def deleted(self, path: str, parent: str) -> list[FiredWatch]:
        """`path` is gone: who watched both its data and its children hears of it once."""
        watchers = self._data.pop(path, {}) | self._children.pop(path, {})
        event = WatchEvent(WatchEventType.DELETED, path)
        fired = [FiredWatch(session_id, watch, event) for session_id, watch in watchers]
        return [*fired, *self._fire(WatchEventType.CHILDREN_CHANGED, parent, self._children)]

    def drop_session(self, session_id: int) -> None:
        """Forget the watches of a session that is over."""
        for table in (self._data, self._children):
            for path in list(table):
                kept = {key: None for key in table[path] if key[0] != session_id}
                if kept:
                    table[path] = kept
                else:
                    del table[path]

    @staticmethod
    def _fire(event_type: WatchEventType, path: str, table: dict[str, _Watchers]) -> list[FiredWatch]:
        watchers = table.pop(path, None)
        if not watchers:
            return []
        event = WatchEvent(event_type, path)
        return [FiredWatch(session_id, watch, event) for session_id, watch in watchers]
