"""What a Store answers when an operation fails, in ZooKeeper's terms.

Raised by the blocking calls of `zk.store.Store`, returned in place of a result by its batches, on whatever thread
called. Immutable once raised, so no lock. ZooKeeper: org.apache.zookeeper.KeeperException.
"""

from __future__ import annotations


class StoreError(Exception):
    """An operation failed. `operation_index` tells which one it was, when it was part of a Multi."""

    def __init__(self, path: str = "", detail: str = "") -> None:
        super().__init__(" ".join(part for part in (path, detail) if part))
        self.path = path
        self.operation_index: int | None = None


class NoNodeError(StoreError):
    """The znode, or the parent of one to be created, doesn't exist. ZooKeeper: NONODE."""


class NodeExistsError(StoreError):
    """The znode to be created exists. ZooKeeper: NODEEXISTS."""


class BadVersionError(StoreError):
    """The znode's version isn't the expected one. ZooKeeper: BADVERSION."""


class NotEmptyError(StoreError):
    """The znode to be deleted has children. ZooKeeper: NOTEMPTY."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral znode can't have children. ZooKeeper: NOCHILDRENFOREPHEMERALS."""


class BadArgumentsError(StoreError):
    """The path isn't one. ZooKeeper: BADARGUMENTS."""


class StoreUnavailableError(StoreError):
    """The store can't be reached, was closed, or failed to write; nothing of the batch was applied, as far as we know.

    ZooKeeper: CONNECTIONLOSS.
    """


class StoreFullError(StoreUnavailableError):
    """There is no room for the change: nothing of the batch was applied, and the store goes on."""


class StoreLockedError(StoreUnavailableError):
    """Another process has the embedded store open."""


class ControllerMovedError(Exception):
    """A write was fenced: another broker became the controller. Kafka: ControllerMovedException."""
