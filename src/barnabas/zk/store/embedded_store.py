"""The metadata store of a single node: sqlite3 in the data dir, served by one thread, watches called by another.

Made and closed by `broker`; one session is given to `KafkaZkClient`. The thread `store` owns the database: batches of
all sessions come to it through a queue, and each is one durable transaction. The thread `store-watch` calls watches and
session listeners, in the order of the changes and never on a caller's thread, so that they may use the store. `_lock`
guards the open state and the table of sessions.

The database is `metadata.sqlite` (and its `-wal`) in the given directory. It is no emulation of ZooKeeper: it has only
the calls that KafkaZkClient makes.
"""

from __future__ import annotations

import errno
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from barnabas.runtime.clock import Clock
from barnabas.zk.store.errors import StoreFullError, StoreUnavailableError
from barnabas.zk.store.store import Operation, Outcome, SessionListener, SessionState, Store
from barnabas.zk.store.watches import FiredWatch, WatchDelivery
from barnabas.zk.store.znode_table import ZnodeTable, open_database

logger = logging.getLogger(__name__)


class _Batch(NamedTuple):
    session: EmbeddedSession
    operations: Sequence[Operation]
    future: Future[list[Outcome]]


class _EndSession(NamedTuple):
    session: EmbeddedSession
    reopen: bool
    future: Future[None]


class EmbeddedStore:
    """The store and its two threads. `directory` None keeps everything in memory (tests).

    A batch for which the disk has no room is rolled back. It is tried once more if `make_room` has made some, which is
    called on the store thread; otherwise it fails with StoreFullError, and the store stays usable. When
    the database fails otherwise (a dead disk), `on_failure` is called once, on the store thread, since a broker without
    metadata must stop. Every later batch fails with StoreUnavailableError.
    """

    def __init__(
        self,
        directory: str | None,
        clock: Clock,
        on_failure: Callable[[BaseException], None] | None = None,
        make_room: Callable[[OSError], bool] | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._on_failure = on_failure
        self._make_room = make_room
        self._is_full = False
        self._lock = threading.Lock()
        self._open = False
        self._next_session_id = 0
        self._sessions: dict[int, EmbeddedSession] = {}
        self._work: queue.SimpleQueue[_Batch | _EndSession | None] = queue.SimpleQueue()
        self._watches = WatchDelivery()
        self._table: ZnodeTable | None = None
        self._failed = False
        self._thread = threading.Thread(target=self._run_store, name="store", daemon=True)

    def start(self) -> None:
        """Open the database, drop the ephemeral znodes of earlier processes, start the threads.

        Raises StoreLockedError when another process has the store, StoreFullError when the disk is full,
        StoreUnavailableError when it can't be used.
        """
        connection = open_database(self._directory)
        try:
            self._table = ZnodeTable(connection, self._clock)
            self._table.delete_ephemerals()
        except sqlite3.Error as error:
            connection.close()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise StoreFullError(self._directory or "", "has no room for the metadata: make some first") from error
            raise StoreUnavailableError(self._directory or "", f"can't be used: {error}") from error
        # As in ZooKeeper, differs from process to process.
        self._next_session_id = (self._clock.milliseconds() << 8) + 1
        with self._lock:
            self._open = True
        self._thread.start()
        self._watches.start()

    def new_session(self) -> EmbeddedSession:
        """Open a session, which lives until it or the store is closed."""
        session = EmbeddedSession(self, self._new_session_id())
        with self._lock:
            self._sessions[session.session_id] = session
        return session

    def close(self) -> None:
        """End all sessions, let the threads finish their queues, close the database. A second call does nothing."""
        with self._lock:
            if not self._open:
                return
            sessions = list(self._sessions.values())
        for session in sessions:
            session.close()
        # Only now, since the ends of the sessions above went through the queue.
        with self._lock:
            self._open = False
        self._work.put(None)
        self._thread.join()
        # After the end of the store thread, which may have queued watches until then.
        self._watches.close()

    # -- for EmbeddedSession

    def submit(self, session: EmbeddedSession, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        """Queue a batch of a session's operations."""
        future: Future[list[Outcome]] = Future()
        self._put(_Batch(session, operations, future), future)
        return future

    def end_session(self, session: EmbeddedSession, *, reopen: bool) -> Future[None]:
        """Queue the end of a session.

        With `reopen` its handle gets a new session, as that of a ZooKeeper client does.
        """
        future: Future[None] = Future()
        self._put(_EndSession(session, reopen, future), future)
        return future

    def _put(self, work: _Batch | _EndSession, future: Future[list[Outcome]] | Future[None]) -> None:
        with self._lock:
            # Under the lock: work behind the None of `close` would never be answered.
            if self._open:
                self._work.put(work)
                return
        future.set_exception(StoreUnavailableError("", "the metadata store is closed"))

    def _new_session_id(self) -> int:
        with self._lock:
            self._next_session_id += 1
            return self._next_session_id

    # -- thread `store`

    def _run_store(self) -> None:
        table = self._table
        assert table is not None, "start() made it"
        while (work := self._work.get()) is not None:
            if self._failed:
                work.future.set_exception(StoreUnavailableError("", "the metadata store has failed"))
                continue
            try:
                self._work_on(table, work)
                self._is_full = False
            except sqlite3.Error as error:
                # A full disk is no defect of the database: the batch fails, and the next one may succeed.
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                    self._refuse(error, work)
                else:
                    self._fail(error, work)
            except Exception as error:
                # A defect, or arguments without sense: the batch was rolled back, and the thread must live.
                logger.exception("A batch of the metadata store failed")
                work.future.set_exception(error)
        table.close()

    def _work_on(self, table: ZnodeTable, work: _Batch | _EndSession) -> None:
        """Apply a batch or end a session, in a second attempt if room could be made for it. Raises sqlite3.Error."""
        step = self._apply if isinstance(work, _Batch) else self._end_session
        try:
            step(table, work)  # type: ignore[arg-type] # each its own
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                raise
            full = OSError(errno.ENOSPC, str(error), self._directory)
            made_room = self._make_room is not None and self._make_room(full)
            # What the write-ahead log has may be four megabytes; its move may need the room of the reserve itself.
            if not table.give_back_log() and not made_room:
                raise
            step(table, work)  # type: ignore[arg-type] # as above

    def _apply(self, table: ZnodeTable, batch: _Batch) -> None:
        outcomes, fired = table.apply(batch.session.session_id, batch.operations)
        # Watches are queued before the answer: a client that sees its own write knows that they are on their way.
        self._deliver(fired)
        batch.future.set_result(outcomes)

    def _end_session(self, table: ZnodeTable, work: _EndSession) -> None:
        session = work.session
        fired = table.end_session(session.session_id)
        with self._lock:
            self._sessions.pop(session.session_id, None)
        if work.reopen:
            session.session_id_now = self._new_session_id()
            with self._lock:
                self._sessions[session.session_id] = session
            self._watches.notify(session.listeners, SessionState.EXPIRED)
        self._deliver(fired)
        if work.reopen:
            self._watches.notify(session.listeners, SessionState.RECONNECTED)
        work.future.set_result(None)

    def _deliver(self, fired: list[FiredWatch]) -> None:
        # The watches of a session that has ended are dropped, as in ZooKeeper.
        for session_id, watch, event in fired:
            with self._lock:
                alive = session_id in self._sessions
            if alive:
                self._watches.put(partial(watch, event))

    def _refuse(self, error: sqlite3.Error, work: _Batch | _EndSession) -> None:
        if not self._is_full:  # once, until a change succeeds
            logger.error("No room in %s for a change of the metadata: %s", self._directory, error)
        self._is_full = True
        work.future.set_exception(StoreFullError(self._directory or "", f"has no room: {error}"))

    def _fail(self, error: sqlite3.Error, work: _Batch | _EndSession) -> None:
        logger.critical("The metadata store in %s has failed: %s", self._directory, error)
        self._failed = True
        work.future.set_exception(StoreUnavailableError(self._directory or "", f"has failed: {error}"))
        if self._on_failure is not None:
            self._on_failure(error)


class EmbeddedSession(Store):
    """One session with an EmbeddedStore."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self._store = store
        self._closed = threading.Lock()
        # Changed on the store thread only, at an expiry.
        self.session_id_now = session_id
        self.listeners: tuple[SessionListener, ...] = ()

    @property
    def session_id(self) -> int:
        """The id of the session behind this handle, which changes at an expiry."""
        return self.session_id_now

    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        """Queue a batch; the future fails with StoreUnavailableError when session or store are closed."""
        if self._closed.locked():
            future: Future[list[Outcome]] = Future()
            future.set_exception(StoreUnavailableError("", "the session with the metadata store is closed"))
            return future
        return self._store.submit(self, operations)

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` when the session expires and when it is open again, which only `expire` causes here."""
        self.listeners = (*self.listeners, listener)

    def expire(self) -> None:
        """End the session behind this handle and open a new one, as after a lost connection to ZooKeeper."""
        self._store.end_session(self, reopen=True).result()

    def close(self) -> None:
        """End the session; its ephemeral znodes go. A second call does nothing."""
        if self._closed.acquire(blocking=False):
            try:
                self._store.end_session(self, reopen=False).result()
            except StoreUnavailableError:
                logger.debug("The metadata store was closed before its session")
