"""The interface of the metadata store: a session with a tree of znodes, in ZooKeeper's terms.

Implemented by `embedded_store` (sqlite3) and `zookeeper_store`; called by KafkaZkClient and its parts alone, and it has
only the calls that they make. A call may come from any thread but the store's own, and blocks until the answer is
there. Watches are called on the store's watch thread. Operations and results are immutable, so no lock.

Kafka: kafka.zookeeper.ZooKeeperClient. ZooKeeper: org.apache.zookeeper.ZooKeeper, PathUtils.validatePath.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias, TypeVar, cast

from barnabas.zk.store.errors import BadArgumentsError, NoNodeError, StoreError

# In SetData, Delete and Check: whatever version the znode has.
ANY_VERSION = -1


class WatchEventType(enum.Enum):
    """The change of a watched path. ZooKeeper: Watcher.Event.EventType."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "data changed"
    CHILDREN_CHANGED = "children changed"


class WatchEvent(NamedTuple):
    """A fired watch. It is gone, and the next read has to set it again."""

    type: WatchEventType
    path: str


class SessionState(enum.Enum):
    """The changes of a session that its listeners get."""

    EXPIRED = "expired"
    """The ephemeral znodes and the watches of the session are gone; the same handle now has a new session. With
    ZooKeeper every call fails with StoreUnavailableError until all listeners have returned: no call that was meant for
    the earlier session takes effect in the new one."""
    RECONNECTED = "reconnected"
    """The new session is ready."""


Watch: TypeAlias = Callable[[WatchEvent], None]
SessionListener: TypeAlias = Callable[[SessionState], None]


class Stat(NamedTuple):
    """The numbers of a znode.

    czxid, mzxid, pzxid: the transactions that created the znode, changed its data last, and changed its children last.
    ctime_ms, mtime_ms: milliseconds since the epoch. ephemeral_owner: the session id, 0 for a persistent znode.
    """

    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


class Create(NamedTuple):
    """Create a znode. With `sequential` the store appends ten digits, which count the children created there."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a znode's data if its version is `version`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a znode without children if its version is `version`."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Succeed if the version of the znode is `version`. Used in a Multi."""

    path: str
    version: int


class Multi(NamedTuple):
    """Apply all of these operations, or none of them."""

    operations: tuple[Create | SetData | Delete | Check, ...]


class GetData(NamedTuple):
    """Read a znode. The watch is set only if it exists; it fires on a change of data or on deletion."""

    path: str
    watch: Watch | None = None


class GetChildren(NamedTuple):
    """Read the names of a znode's children, sorted.

    The watch fires when a child appears or disappears, or on deletion.
    """

    path: str
    watch: Watch | None = None


class Exists(NamedTuple):
    """Read a znode's Stat, None if there is no such znode. The watch fires on creation, change or deletion."""

    path: str
    watch: Watch | None = None


class Created(NamedTuple):
    """The created path (with its sequence number) and its Stat, whose czxid is the broker epoch in Kafka."""

    path: str
    stat: Stat


class NodeData(NamedTuple):
    """A znode's data and Stat."""

    data: bytes
    stat: Stat


class Children(NamedTuple):
    """The names (not paths) of a znode's children, sorted, and its Stat."""

    names: list[str]
    stat: Stat


Operation: TypeAlias = Create | SetData | Delete | Check | Multi | GetData | GetChildren | Exists
# The results of operations: Create -> Created, SetData -> Stat, Delete and Check -> None, GetData -> NodeData,
# GetChildren -> Children, Exists -> Stat or None, Multi -> a list of these in order.
Result: TypeAlias = "Created | Stat | NodeData | Children | list[Result] | None"
Outcome: TypeAlias = "Result | StoreError"

_T = TypeVar("_T")


class Store(ABC):
    """One session with a store.

    An implementation has `submit` and the session calls; the named operations below are batches of one. A batch is
    pipelined: its operations are applied in order, and each succeeds or fails on its own. In the embedded store no
    operation of another session comes between them (ZooKeeper promises only the order).
    """

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The id of the current session: the `ephemeral_owner` of its znodes. Changes after an expiry."""

    @abstractmethod
    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        """Apply a batch. The future gets one outcome per operation, when all of them are durable.

        Failures of single operations are outcomes; the future fails with StoreUnavailableError when nothing was
        applied.
        """

    @abstractmethod
    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` on the watch thread when the session expires and when a new one is ready."""

    @abstractmethod
    def close(self) -> None:
        """End the session: its ephemeral znodes are deleted, its watches never fire. A second call does nothing."""

    def stop_waiting(self) -> bool:
        """Have no call wait for a connection from now on: a broker that stops must not wait for ZooKeeper to be back.

        Return whether there is a connection. Without one, calls fail with StoreUnavailableError.
        """
        return True  # a store in this process needs no connection

    def batch(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Apply a batch, and wait for its outcomes. Raises StoreUnavailableError: nothing was applied."""
        return self.submit(operations).result()

    def multi(self, operations: Sequence[Create | SetData | Delete | Check]) -> list[Result]:
        """Apply all operations or none. Raises StoreError: the error of the failed one, with its `operation_index`."""
        return self._one(Multi(tuple(operations)), list)

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> Created:
        """Create a znode. Raises NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError."""
        return self._one(Create(path, data, ephemeral, sequential), Created)

    def get(self, path: str, watch: Watch | None = None) -> NodeData:
        """Read a znode. Raises NoNodeError."""
        return self._one(GetData(path, watch), NodeData)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a znode. Raises NoNodeError, BadVersionError."""
        return self._one(SetData(path, data, version), Stat)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode. Raises NoNodeError, BadVersionError, NotEmptyError."""
        self._one(Delete(path, version), type(None))

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return the Stat of a znode, or None. Raises StoreError: the store failed."""
        outcome = self.batch([Exists(path, watch)])[0]
        if isinstance(outcome, StoreError):
            raise outcome
        return cast("Stat | None", outcome)

    def children(self, path: str, watch: Watch | None = None) -> Children:
        """Read the names of a znode's children. Raises NoNodeError."""
        return self._one(GetChildren(path, watch), Children)

    def _one(self, operation: Operation, kind: type[_T]) -> _T:
        outcome = self.batch([operation])[0]
        return value_of(outcome, kind)


def value_of(outcome: Outcome, kind: type[_T]) -> _T:
    """Return `outcome` as a result of this kind.

    Raises StoreError: the outcome is an error. Raises TypeError: the outcome is of another kind, a defect of the store.
    """
    if isinstance(outcome, StoreError):
        raise outcome
    if not isinstance(outcome, kind):
        raise TypeError(f"a {kind.__name__} was expected of the store, not {outcome!r}")
    return outcome


def value_or_none(outcome: Outcome, kind: type[_T]) -> _T | None:
    """Return `outcome` as a result of this kind, or None for NoNodeError. Raises StoreError: it is another error."""
    if isinstance(outcome, NoNodeError):
        return None
    return value_of(outcome, kind)


def parent_of(path: str) -> str:
    """Return the path of a znode's parent."""
    return path[: path.rindex("/")] or "/"


def check_path(path: str, *, sequential: bool = False) -> None:
    """Check a path by ZooKeeper's rules. sequential: digits will be appended, so that it may end with a slash.

    Raises BadArgumentsError: the path is malformed.
    """
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadArgumentsError(path, "must begin with a slash")
    if path.endswith("/") and not sequential:
        raise BadArgumentsError(path, "must not end with a slash")
    if any(part in ("", ".", "..") for part in path[1:].split("/")[: -1 if sequential else None]) or "\0" in path:
        raise BadArgumentsError(path, "has an empty, relative or null part")
