"""Which watches are set on which path, and which of them a change fires.

Owned by the thread that applies operations (`store`), never touched by another, so no lock. Pure: it calls no watch,
it returns what is to be called. A batch that is rolled back has fired nothing: its watches are put back.
ZooKeeper: org.apache.zookeeper.server.WatchManager and DataTree.
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
        self._taken: list[tuple[dict[str, _Watchers], str, _Watchers]] = []
        """What the batch being applied has taken out: table, path, watchers."""

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
        watchers = self._take(self._data, path) | self._take(self._children, path)
        event = WatchEvent(WatchEventType.DELETED, path)
        fired = [FiredWatch(session_id, watch, event) for session_id, watch in watchers]
        return [*fired, *self._fire(WatchEventType.CHILDREN_CHANGED, parent, self._children)]

    def drop_session(self, session_id: int) -> None:
        """Forget the watches of a session that is over."""
        for table in (self._data, self._children):
            for path in list(table):
                watchers = self._take(table, path)
                kept = {key: None for key in watchers if key[0] != session_id}
                if kept:
                    table[path] = kept

    def committed(self) -> None:
        """What was taken out stays out."""
        self._taken.clear()

    def rolled_back(self) -> None:
        """What was taken out is watched again, before what was set since."""
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
