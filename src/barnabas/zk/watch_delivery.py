"""The thread `store-watch` of a store: it calls watches and session listeners.

Made by both stores. Any thread queues calls; the thread makes them one by one, in order, and never on a caller's
thread, so that watches and listeners may use the store. A queue is all that threads share, so there is no lock.
ZooKeeper: ClientCnxn.EventThread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial

from barnabas.zk.store import SessionListener, SessionState

logger = logging.getLogger(__name__)


class WatchDelivery:
    """The thread and its queue. `put` is called by any thread, before `start` as well."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_dropping = False
        self._thread = threading.Thread(target=self._run, name="store-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
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
