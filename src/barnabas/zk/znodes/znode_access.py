"""Reads and writes of znodes as Kafka does them: watches by registered handlers, writes fenced by the controller epoch.

Shared by `KafkaZkClient` and its parts, called from any thread. `_lock` guards the two tables of handlers; a handler is
called on the store's watch thread, without the lock, and must only pass the event on. By a notice (`ChangeNotices`) one
broker tells all others that something else in the store has changed.

A controller that was paused, and a later one, whose election has raised the version of /controller_epoch from 7 to 8:

    earlier controller: write, expected version 7    Multi(Check(/controller_epoch, 7), SetData(...))
                                                     fails at its first operation: nothing is written
                                                     ControllerMovedError: the earlier controller resigns

Kafka: the lower half of kafka.zk.KafkaZkClient, kafka.zookeeper.ZooKeeperClient (ZNodeChangeHandler).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.zk.store.errors import BadVersionError, ControllerMovedError, NodeExistsError, NoNodeError, StoreError
from barnabas.zk.store.store import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    Outcome,
    SetData,
    Stat,
    Store,
    Watch,
    WatchEvent,
    WatchEventType,
    value_of,
    value_or_none,
)
from barnabas.zk.znodes.broker_zk_data import ControllerEpochZNode

# Called with CREATED, DELETED or DATA_CHANGED.
ZnodeChangeHandler = Callable[[WatchEventType], None]
ZnodeChildChangeHandler = Callable[[], None]


class ZnodeAccess:
    """Typed reads and writes on a Store.

    A read of a path with a handler sets the watch again. The owner of a handler therefore misses no change: a change
    before its read is in the data it reads, and a change after it calls the handler.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._change_handlers: dict[str, ZnodeChangeHandler] = {}
        self._child_change_handlers: dict[str, ZnodeChildChangeHandler] = {}

    # -- handlers

    def register_change_handler(self, path: str, handler: ZnodeChangeHandler) -> None:
        """Call `handler` at changes of `path`, from the next read of it on."""
        with self._lock:
            self._change_handlers[path] = handler

    def register_change_handler_and_check_existence(self, path: str, handler: ZnodeChangeHandler) -> bool:
        """Call `handler` at changes of `path` from now on, and return whether `path` exists."""
        self.register_change_handler(path, handler)
        return self.exists(path)

    def unregister_change_handler(self, path: str) -> None:
        """Stop calling the handler of `path`. A watch that is set may still fire, and is ignored."""
        with self._lock:
            self._change_handlers.pop(path, None)

    def register_child_change_handler(self, path: str, handler: ZnodeChildChangeHandler) -> None:
        """Call `handler` when children of `path` appear or disappear, from the next read of its children on."""
        with self._lock:
            self._child_change_handlers[path] = handler

    def unregister_child_change_handler(self, path: str) -> None:
        """Stop calling the handler for children of `path`."""
        with self._lock:
            self._child_change_handlers.pop(path, None)

    def _on_watch(self, event: WatchEvent) -> None:
        if event.type is WatchEventType.CHILDREN_CHANGED:
            with self._lock:
                child_handler = self._child_change_handlers.get(event.path)
            if child_handler is not None:
                child_handler()
            return
        with self._lock:
            handler = self._change_handlers.get(event.path)
        if handler is not None:
            handler(event.type)

    def _change_watch(self, path: str) -> Watch | None:
        with self._lock:
            # Bound methods of one object are equal, so that the store keeps one watch for a path that is read often.
            return self._on_watch if path in self._change_handlers else None

    def _child_watch(self, path: str) -> Watch | None:
        with self._lock:
            return self._on_watch if path in self._child_change_handlers else None

    # -- reads

    def get(self, path: str) -> NodeData | None:
        """Return the data and Stat of a znode, or None."""
        return self.get_many([path])[0]

    def get_many(self, paths: Sequence[str]) -> list[NodeData | None]:
        """Return the data of several znodes, read in one batch."""
        outcomes = self.store.batch([GetData(path, self._change_watch(path)) for path in paths])
        return [value_or_none(outcome, NodeData) for outcome in outcomes]

    def exists(self, path: str) -> bool:
        """Return whether a znode exists."""
        return self.stat(path) is not None

    def stat(self, path: str) -> Stat | None:
        """Return the Stat of a znode, or None."""
        outcome = self.store.batch([Exists(path, self._change_watch(path))])[0]
        return None if outcome is None else value_of(outcome, Stat)

    def children(self, path: str) -> list[str]:
        """Return the names of a znode's children, sorted; none if the znode does not exist."""
        outcome = self.store.batch([GetChildren(path, self._child_watch(path))])[0]
        children = value_or_none(outcome, Children)
        return [] if children is None else children.names

    # -- writes

    def create_recursive(self, path: str, data: bytes = b"") -> None:
        """Create a znode and its missing parents. Raises NodeExistsError: the znode exists."""
        outcomes = self.store.batch(creations_with_parents(path, data))
        value_of(outcomes[-1], Created)

    def make_sure_exist(self, paths: Sequence[str]) -> None:
        """Create the missing ones of `paths`, with parents, in one batch. Raises StoreError."""
        wanted = dict.fromkeys(operation for path in paths for operation in creations_with_parents(path))
        for outcome in self.store.batch(list(wanted)):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    def conditional_update(self, path: str, data: bytes, expected_version: int) -> int | None:
        """Set the data of a znode if its version is the expected one. Return the new version, or None.

        Raises NoNodeError: the znode does not exist.
        """
        outcome = self.store.batch([SetData(path, data, expected_version)])[0]
        if isinstance(outcome, BadVersionError):
            return None
        return value_of(outcome, Stat).version

    def fenced(
        self, operations: Sequence[Create | SetData | Delete], expected_controller_epoch_version: int
    ) -> list[Outcome]:
        """Apply a batch of writes, each only while the version of /controller_epoch is the expected one.

        ANY_VERSION does not fence. Raises ControllerMovedError: a write was fenced, and all later ones with it.
        """
        if expected_controller_epoch_version == ANY_VERSION:
            return self.store.batch(operations)
        check = Check(ControllerEpochZNode.path, expected_controller_epoch_version)
        # A transaction for each write, as in Kafka: one that fails must not undo the others.
        outcomes = self.store.batch([Multi((check, operation)) for operation in operations])
        unfenced: list[Outcome] = []
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and outcome.operation_index == 0:
                raise ControllerMovedError(
                    f"Controller epoch zkVersion check fails. Expected zkVersion = {expected_controller_epoch_version}"
                )
            unfenced.append(outcome[1] if isinstance(outcome, list) else outcome)
        return unfenced

    def delete_children(self, path: str, names: Sequence[str], expected_controller_epoch_version: int) -> None:
        """Delete children of a znode, fenced. Missing ones are ignored. Raises ControllerMovedError or StoreError."""
        if names:
            operations = [Delete(f"{path}/{name}") for name in names]
            for outcome in self.fenced(operations, expected_controller_epoch_version):
                if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError):
                    raise outcome

    def delete_recursive(self, path: str, expected_controller_epoch_version: int) -> None:
        """Delete a znode and everything below, children first, in one fenced batch per attempt.

        Raises ControllerMovedError: the batch was fenced. Raises StoreError: another failure.
        """
        paths = self._subtree(path)
        operations = [Delete(found) for found in reversed(paths)]
        for outcome in self.fenced(operations, expected_controller_epoch_version):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError):
                raise outcome

    def _subtree(self, path: str) -> list[str]:
        """Return `path` and everything below, parents first, read level by level without setting watches."""
        found, level = [path], [path]
        while level:
            operations: list[Operation] = [GetChildren(parent) for parent in level]
            below: list[str] = []
            for parent, outcome in zip(level, self.store.batch(operations), strict=True):
                children = value_or_none(outcome, Children)
                if children is not None:
                    below += [f"{parent}/{name}" for name in children.names]
            found += below
            level = below
        return found


def creations_with_parents(path: str, data: bytes = b"") -> list[Create]:
    """Return the operations that create `path` and its parents; all but the last may find that their znode exists."""
    parts = path[1:].split("/")
    parents = [Create("/" + "/".join(parts[:depth])) for depth in range(1, len(parts))]
    return [*parents, Create(path, data)]


class Notice(NamedTuple):
    """A notice: what it says, and when it was written (ms)."""

    data: bytes
    created_ms: int


class ChangeNotices:
    """The notices of one kind: children of one znode, with sequence numbers. Stateless, so no lock.

    path: of their parent, which exists. prefix: of their names. A notice is written last, so that its readers find the
    change. Kafka: the paths and prefixes that ZkNodeChangeNotificationListener is given.
    """

    def __init__(self, access: ZnodeAccess, path: str, prefix: str) -> None:
        self.access = access
        self.path = path
        self._prefix = prefix

    def names(self) -> list[str]:
        """Return the names of the notices, oldest first. Sets the watch on their parent."""
        return [name for name in self.access.children(self.path) if name.startswith(self._prefix)]

    def number(self, name: str) -> int:
        """Return the sequence number in a notice's name; -1 if there is none."""
        digits = name.removeprefix(self._prefix)
        return int(digits) if digits.isdigit() else -1

    def read(self, name: str) -> Notice | None:
        """Return a notice, or None if it is gone."""
        node = self.access.get(f"{self.path}/{name}")
        return None if node is None else Notice(node.data, node.stat.ctime_ms)

    def delete(self, names: Sequence[str]) -> None:
        """Remove notices. Missing ones are ignored."""
        self.access.delete_children(self.path, names, ANY_VERSION)

    def creation(self, data: bytes) -> Create:
        """Return the operation that writes a notice."""
        return Create(f"{self.path}/{self._prefix}", data, sequential=True)
