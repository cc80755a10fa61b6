"""The errors of a Store, in ZooKeeper's terms.

Raised by the blocking calls of `zk.store.store.Store` on the calling thread, and returned in place of a result by its
batches. Immutable once raised, so no lock. Kafka: org.apache.zookeeper.KeeperException.
"""

from __future__ import annotations


class StoreError(Exception):
    """An operation failed. `operation_index` is its place in a Multi."""

    def __init__(self, path: str = "", detail: str = "") -> None:
        super().__init__(" ".join(part for part in (path, detail) if part))
        self.path = path
        self.operation_index: int | None = None


class NoNodeError(StoreError):
    """The znode, or the parent of one to be created, does not exist. ZooKeeper: NONODE."""


class NodeExistsError(StoreError):
    """The znode to be created exists. ZooKeeper: NODEEXISTS."""


class BadVersionError(StoreError):
    """The version of the znode is not the expected one. ZooKeeper: BADVERSION."""


class NotEmptyError(StoreError):
    """The znode to be deleted has children. ZooKeeper: NOTEMPTY."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral znode can't have children. ZooKeeper: NOCHILDRENFOREPHEMERALS."""


class BadArgumentsError(StoreError):
    """The path is malformed. ZooKeeper: BADARGUMENTS."""


class AccessDeniedError(StoreError):
    """The session has no user, or none whom the znode's access control list names. ZooKeeper: NOAUTH, INVALIDACL."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, is closed, or failed to write. The batch was most likely not applied.

    ZooKeeper: CONNECTIONLOSS.
    """


class StoreFullError(StoreUnavailableError):
    """The disk has no room for the change: nothing of the batch was applied, and the store stays usable."""


class StoreLockedError(StoreUnavailableError):
    """Another process has the embedded store open."""


class ControllerMovedError(Exception):
    """A write was fenced: another broker became the controller. Kafka: ControllerMovedException."""
