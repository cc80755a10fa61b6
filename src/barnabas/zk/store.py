"""The metadata store as its users see it: a session with a tree of znodes, in ZooKeeper's terms.

Implemented by `zk.embedded_store.EmbeddedSession` (sqlite3) and, for clusters, by a ZooKeeper client; used only by
`zk.kafka_zk_client.KafkaZkClient`. Every call may come from any thread except the store's own and blocks until the
answer is there; watches are called on the store's watch thread. Operations and results are immutable, so no lock.

It has the calls KafkaZkClient makes and no more.
ZooKeeper: org.apache.zookeeper.ZooKeeper; Kafka: kafka.zookeeper.ZooKeeperClient.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias, TypeVar, cast

from barnabas.zk.errors import NoNodeError, StoreError

ANY_VERSION = -1  # in SetData, Delete and Check: whatever version the znode has


class WatchEventType(enum.Enum):
    """What happened to a watched path. ZooKeeper: Watcher.Event.EventType."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "data changed"
    CHILDREN_CHANGED = "children changed"


class WatchEvent(NamedTuple):
    """A watch fired: it is gone and must be set again by the next read."""

    type: WatchEventType
    path: str


class SessionState(enum.Enum):
    """What a session's listener is told."""

    EXPIRED = "expired"  # its ephemerals and watches are gone; the same handle now has a new session
    RECONNECTED = "reconnected"  # the new session is ready


Watch: TypeAlias = Callable[[WatchEvent], None]
SessionListener: TypeAlias = Callable[[SessionState], None]


class Stat(NamedTuple):
    """A znode's numbers. `czxid` and `mzxid` are the transactions that created it and changed its data last;

    `pzxid` the one that changed its children last; `ctime_ms` and `mtime_ms` milliseconds since the epoch;
    `ephemeral_owner` the session id, 0 for a persistent znode.
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
    """Create a znode. With `sequential` the store appends ten digits, one up for each child created there."""

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
    """Succeed if the znode's version is `version`; of use in a Multi."""

    path: str
    version: int


class Multi(NamedTuple):
    """All of these, or none of them."""

    operations: tuple[Create | SetData | Delete | Check, ...]


class GetData(NamedTuple):
    """Read a znode. The watch is set only if it exists; it fires on a change of data or on deletion."""

    path: str
    watch: Watch | None = None


class GetChildren(NamedTuple):
    """Read the names of a znode's children, sorted. The watch fires when one comes or goes, or on deletion."""

    path: str
    watch: Watch | None = None


class Exists(NamedTuple):
    """Read a znode's Stat, None if there is no such znode. The watch fires on creation, change or deletion."""

    path: str
    watch: Watch | None = None


class Created(NamedTuple):
    """The path made (with its sequence number) and its Stat, whose czxid is what Kafka calls the broker epoch."""

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
# What an operation gives: Create -> Created, SetData -> Stat, Delete and Check -> None, GetData -> NodeData,
# GetChildren -> Children, Exists -> Stat or None, Multi -> a list of these in order.
Result: TypeAlias = "Created | Stat | NodeData | Children | list[Result] | None"
Outcome: TypeAlias = "Result | StoreError"

_T = TypeVar("_T")


class Store(ABC):
    """One session with a store.

    An implementation gives `submit` and the session calls; the named operations below are the same thing, one at a
    time. A batch is pipelined: its operations are applied in order, each succeeds or fails on its own, and no other
    session's operations come between them in the embedded store (ZooKeeper promises the order only).
    """

    @property
    @abstractmethod
    def session_id(self) -> int:
        """Id of the current session: the `ephemeral_owner` of what it creates. Changes after an expiry."""

    @abstractmethod
    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        """Apply a batch; the future gives one outcome per operation, after all of it is durable.

        Failures of single operations are outcomes; the future fails with StoreUnavailableError when nothing was
        applied.
        """

    @abstractmethod
    def add_session_listener(self, listener: SessionListener) -> None:
        """Have `listener` called on the watch thread when the session expires and when a new one is ready."""

    @abstractmethod
    def close(self) -> None:
        """End the session: its ephemeral znodes vanish, its watches never fire. Harmless when repeated."""

    def batch(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Apply a batch and wait for it. See `submit`."""
        return self.submit(operations).result()

    def multi(self, operations: Sequence[Create | SetData | Delete | Check]) -> list[Result]:
        """Apply all or none; raises the failing operation's StoreError, with its `operation_index`."""
        return self._one(Multi(tuple(operations)), list)

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> Created:
        """See Create. NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError."""
        return self._one(Create(path, data, ephemeral, sequential), Created)

    def get(self, path: str, watch: Watch | None = None) -> NodeData:
        """See GetData. NoNodeError."""
        return self._one(GetData(path, watch), NodeData)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See SetData. NoNodeError, BadVersionError."""
        return self._one(SetData(path, data, version), Stat)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See Delete. NoNodeError, BadVersionError, NotEmptyError."""
        self._one(Delete(path, version), type(None))

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """See Exists."""
        outcome = self.batch([Exists(path, watch)])[0]
        if isinstance(outcome, StoreError):
            raise outcome
        return cast("Stat | None", outcome)

    def children(self, path: str, watch: Watch | None = None) -> Children:
        """See GetChildren. NoNodeError."""
        return self._one(GetChildren(path, watch), Children)

    def _one(self, operation: Operation, kind: type[_T]) -> _T:
        outcome = self.batch([operation])[0]
        return value_of(outcome, kind)


def value_of(outcome: Outcome, kind: type[_T]) -> _T:
    """`outcome` as the result it must be; raises it if it is an error."""
    if isinstance(outcome, StoreError):
        raise outcome
    if not isinstance(outcome, kind):
        raise TypeError(f"a {kind.__name__} was expected of the store, not {outcome!r}")
    return outcome


def value_or_none(outcome: Outcome, kind: type[_T]) -> _T | None:
    """`outcome` as the result it must be, None if there is no such znode; raises it if it is another error."""
    if isinstance(outcome, NoNodeError):
        return None
    return value_of(outcome, kind)
