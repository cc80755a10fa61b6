"""The tree of znodes as rows of a sqlite3 database, and ZooKeeper's rules for changing it.

Made by `zk.store.embedded_store`, used on its owner thread only (`store`), so no lock of ours; the database file itself
is locked exclusively, so that no second process opens it. Every batch that changes something is one transaction
(write-ahead log, synchronous FULL: durable when it returns).

ZooKeeper: org.apache.zookeeper.server.DataTree, PrepRequestProcessor.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.runtime.clock import Clock
from barnabas.zk.store.errors import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
)
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
    Result,
    SetData,
    Stat,
    check_path,
    parent_of,
)
from barnabas.zk.store.watches import FiredWatch, WatchTable

DATABASE_NAME = "metadata.sqlite"
MOVED_FILE = "metadata.moved"
"""Beside the database when its metadata were moved into ZooKeeper (`broker.metadata_migration`)."""
# In PRAGMA user_version: a later version of this program recognises the format by it.
_FORMAT = 1

# Free pages in the file, of sqlite's size: room for some hundred znodes.
_FREE_PAGES, _PAGE_BYTES = 128, 4096

# `creates` counts the children ever created: the next sequence number, and half of ZooKeeper's cversion.
_SCHEMA = """
CREATE TABLE znode (
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL,
    ctime INTEGER NOT NULL, mtime INTEGER NOT NULL,
    version INTEGER NOT NULL, creates INTEGER NOT NULL, children INTEGER NOT NULL, owner INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX znode_parent ON znode (parent, path);
CREATE INDEX znode_owner ON znode (owner) WHERE owner <> 0;
CREATE TABLE transaction_id (zxid INTEGER NOT NULL);
INSERT INTO transaction_id VALUES (0);
INSERT INTO znode VALUES ('/', '', x'', 0, 0, 0, 0, 0, 0, 0, 0, 0);
"""
_SELECT = "SELECT data, czxid, mzxid, pzxid, ctime, mtime, version, creates, children, owner FROM znode WHERE path = ?"


class _Row(NamedTuple):
    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    creates: int
    children: int
    owner: int

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            ctime_ms=self.ctime,
            mtime_ms=self.mtime,
            version=self.version,
            # ZooKeeper counts creations and shows changes: every child that is gone was deleted.
            cversion=self.creates * 2 - self.children,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            num_children=self.children,
        )


def open_database(directory: str | None) -> sqlite3.Connection:
    """Open, lock and if need be create the database in `directory`; in memory when that is None.

    Raises StoreLockedError: another process has the database. Raises StoreUnavailableError: it cannot be used.
    """
    path = ":memory:" if directory is None else os.path.join(directory, DATABASE_NAME)
    try:
        # Opened on the main thread, used on `store`. No waiting for a lock: its holder is another broker, and keeps it.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    except sqlite3.Error as error:
        raise StoreUnavailableError(path, f"can't be opened: {error}") from error
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        # Takes the lock now, not at the first write.
        connection.execute("BEGIN EXCLUSIVE")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("COMMIT")
        if directory is not None and found in (0, _FORMAT):
            _keep_free_pages(connection)
    except sqlite3.Error as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreLockedError(
                path, "is in use by another process: two brokers can't share one metadata store"
            ) from error
        raise StoreUnavailableError(path, f"can't be used: {error}") from error
    if found not in (0, _FORMAT):
        connection.close()
        raise StoreUnavailableError(path, f"has format {found}; this version reads format {_FORMAT}")
    return connection


def _keep_free_pages(connection: sqlite3.Connection) -> None:
    """Have the file contain free pages. Raises sqlite3.Error, but not when the disk is full.

    On a full disk the write-ahead log can be moved into the database then, though new znodes need pages.
    """
    if connection.execute("PRAGMA freelist_count").fetchone()[0] >= _FREE_PAGES // 2:
        return
    try:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE spare (room BLOB)")
        connection.execute("INSERT INTO spare VALUES (zeroblob(?))", (_FREE_PAGES * _PAGE_BYTES,))
        connection.execute("DROP TABLE spare")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
            raise


class ZnodeTable:
    """The tree, and the watches that a change of it fires."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._watches = WatchTable()
        self._changes: list[Callable[[], list[FiredWatch]]] = []
        self._fired: list[FiredWatch] = []
        self._in_transaction = False
        self._zxid: int = connection.execute("SELECT zxid FROM transaction_id").fetchone()[0]
        self._operations: dict[type[Operation], Callable[..., Result]] = {
            Create: self._create,
            SetData: self._set,
            Delete: self._delete,
            Check: self._check,
            Multi: self._multi,
            GetData: self._get,
            GetChildren: self._get_children,
            Exists: self._exists,
        }

    def apply(self, session_id: int, operations: Sequence[Operation]) -> tuple[list[Outcome], list[FiredWatch]]:
        """Apply a batch in one transaction. Return the outcomes, and the watches to call in order.

        Raises sqlite3.Error: the database failed, and nothing of the batch was applied.
        """
        zxid = self._zxid
        self._fired = []
        try:
            outcomes = [self._apply_one(session_id, operation) for operation in operations]
            self._commit()
        except BaseException:
            self._zxid = zxid
            self._roll_back()
            raise
        return outcomes, self._fired

    def end_session(self, session_id: int) -> list[FiredWatch]:
        """Delete the ephemeral znodes of a session and forget its watches. Return the watches of others to call."""
        self._watches.drop_session(session_id)
        return self._delete_where("owner = ?", (session_id,))

    def delete_ephemerals(self) -> None:
        """Delete every ephemeral znode: they are left from sessions of earlier processes."""
        self._delete_where("owner <> 0", ())

    def give_back_log(self) -> bool:
        """Move what the write-ahead log has into the database, and return whether this has given its room back."""
        try:
            busy, pages, _moved = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                return False
            raise
        return not busy and pages == 0

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    # -- operations

    def _apply_one(self, session_id: int, operation: Operation) -> Outcome:
        self._changes = []
        try:
            result = self._operations[type(operation)](session_id, operation)
        except StoreError as error:
            return error
        self._fire()
        return result

    def _fire(self) -> None:
        """Collect the watches that the changes fire.

        Called after the batch, since a Multi that fails changes nothing.
        """
        for change in self._changes:
            self._fired += change()
        self._changes = []

    def _create(self, session_id: int, operation: Create) -> Created:
        """Create a znode. Raises NoNodeError, NoChildrenForEphemeralsError or NodeExistsError."""
        check_path(operation.path, sequential=operation.sequential)
        parent_path = parent_of(operation.path)
        parent = self._row(parent_path)
        if parent is None:
            raise NoNodeError(parent_path)
        if parent.owner:
            raise NoChildrenForEphemeralsError(parent_path)
        # ZooKeeper's ten digits, by which names sort as text in the order of creation.
        path = operation.path + (f"{parent.creates:010d}" if operation.sequential else "")
        if self._row(path) is not None:
            raise NodeExistsError(path)
        zxid, now = self._next_zxid(), self._clock.milliseconds()
        owner = session_id if operation.ephemeral else 0
        row = _Row(operation.data, zxid, zxid, zxid, now, now, 0, 0, 0, owner)
        self._connection.execute("INSERT INTO znode VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", (path, parent_path, *row))
        self._connection.execute(
            "UPDATE znode SET creates = creates + 1, children = children + 1, pzxid = ? WHERE path = ?",
            (zxid, parent_path),
        )
        self._changes.append(partial(self._watches.created, path, parent_path))
        return Created(path, row.stat())

    def _set(self, _session_id: int, operation: SetData) -> Stat:
        row = self._existing(operation.path, operation.version)
        zxid = self._next_zxid()
        changed = row._replace(
            data=operation.data, mzxid=zxid, mtime=self._clock.milliseconds(), version=row.version + 1
        )
        self._connection.execute(
            "UPDATE znode SET data = ?, mzxid = ?, mtime = ?, version = ? WHERE path = ?",
            (changed.data, changed.mzxid, changed.mtime, changed.version, operation.path),
        )
        self._changes.append(partial(self._watches.changed, operation.path))
        return changed.stat()

    def _delete(self, _session_id: int, operation: Delete) -> None:
        """Delete a znode. Raises NoNodeError, BadVersionError, NotEmptyError or BadArgumentsError."""
        if operation.path == "/":
            raise BadArgumentsError("/", "can't be deleted")
        row = self._existing(operation.path, operation.version)
        if row.children:
            raise NotEmptyError(operation.path)
        self._delete_row(operation.path)

    def _check(self, _session_id: int, operation: Check) -> None:
        self._existing(operation.path, operation.version)

    def _multi(self, session_id: int, multi: Multi) -> list[Result]:
        self._begin()
        # Inside of a transaction: a savepoint outside of one would be committed with its release, before the rest of
        # the batch.
        self._connection.execute("SAVEPOINT multi")
        results: list[Result] = []
        try:
            for operation in multi.operations:
                results.append(self._operations[type(operation)](session_id, operation))  # noqa: PERF401 - counted below
        except StoreError as error:
            error.operation_index = len(results)
            self._connection.execute("ROLLBACK TO multi")
            raise
        finally:
            self._connection.execute("RELEASE multi")
        return results

    def _get(self, session_id: int, operation: GetData) -> NodeData:
        row = self._existing(operation.path)
        if operation.watch is not None:
            self._watches.watch_data(operation.path, session_id, operation.watch)
        return NodeData(row.data, row.stat())

    def _get_children(self, session_id: int, operation: GetChildren) -> Children:
        row = self._existing(operation.path)
        if operation.watch is not None:
            self._watches.watch_children(operation.path, session_id, operation.watch)
        start = 1 if operation.path == "/" else len(operation.path) + 1
        found = self._connection.execute("SELECT path FROM znode WHERE parent = ? ORDER BY path", (operation.path,))
        return Children([path[start:] for (path,) in found], row.stat())

    def _exists(self, session_id: int, operation: Exists) -> Stat | None:
        check_path(operation.path)
        row = self._row(operation.path)
        if operation.watch is not None:
            self._watches.watch_data(operation.path, session_id, operation.watch)
        return None if row is None else row.stat()

    # -- rows and transactions

    def _row(self, path: str) -> _Row | None:
        found = self._connection.execute(_SELECT, (path,)).fetchone()
        return None if found is None else _Row._make(found)

    def _existing(self, path: str, version: int = ANY_VERSION) -> _Row:
        """Return the row of a znode. Raises NoNodeError, BadVersionError or BadArgumentsError."""
        check_path(path)
        row = self._row(path)
        if row is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, row.version):
            raise BadVersionError(path, f"has version {row.version}, not {version}")
        return row

    def _delete_row(self, path: str) -> None:
        parent_path = parent_of(path)
        zxid = self._next_zxid()
        self._connection.execute("DELETE FROM znode WHERE path = ?", (path,))
        self._connection.execute(
            "UPDATE znode SET children = children - 1, pzxid = ? WHERE path = ?", (zxid, parent_path)
        )
        self._changes.append(partial(self._watches.deleted, path, parent_path))

    def _delete_where(self, condition: str, arguments: tuple[int, ...]) -> list[FiredWatch]:
        # `condition` is one of two literals above. Ephemeral znodes have no children, so any order will do.
        zxid = self._zxid
        self._changes, self._fired = [], []
        select = f"SELECT path FROM znode WHERE {condition} ORDER BY path"  # noqa: S608
        try:
            for (path,) in self._connection.execute(select, arguments).fetchall():
                self._delete_row(path)
            self._fire()
            self._commit()
        except BaseException:
            self._zxid = zxid
            self._roll_back()
            raise
        return self._fired

    def _next_zxid(self) -> int:
        self._begin()
        self._zxid += 1
        return self._zxid

    def _begin(self) -> None:
        if not self._in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
            self._in_transaction = True

    def _commit(self) -> None:
        if self._in_transaction:
            # In the same transaction: czxids are broker epochs, which must not go back after a crash.
            self._connection.execute("UPDATE transaction_id SET zxid = ?", (self._zxid,))
            self._connection.execute("COMMIT")
            self._in_transaction = False
        self._watches.committed()

    def _roll_back(self) -> None:
        self._watches.rolled_back()
        if self._in_transaction:
            self._in_transaction = False
            # Some failures, such as a full disk, roll back by themselves.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
