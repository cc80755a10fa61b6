"""The listener for one kind of notices in the store: each notice is handled once, in order, also after failures.

Used by `stored_configs` and `delegation_token_manager`. The watch on the parent of the notices fires on the
store's watch thread, which only schedules the reading; notices are read and handled on a `scheduler-<n>` thread.
`_lock` serialises readings, so that they are in order. Kafka: ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.znodes.znode_access import ChangeNotices

logger = logging.getLogger(__name__)

# Kafka: the default of ZkNodeChangeNotificationListener.changeExpirationMs.
NOTICE_LIFETIME_MS = 15 * 60 * 1000


class ChangeNoticeListener:
    """The listener. handle: called with the data of a notice; what it raises is logged. task: the scheduler's name."""

    def __init__(
        self, notices: ChangeNotices, handle: Callable[[bytes], None], scheduler: Scheduler, clock: Clock, task: str
    ) -> None:
        self._notices = notices
        self._handle = handle
        self._scheduler = scheduler
        self._clock = clock
        self._task = task
        self._lock = threading.Lock()
        self._last_executed = -1
        self._stopped = threading.Event()

    def start(self, load: Callable[[], None] | None = None) -> None:
        """Listen from now on, and call `load` first, which reads everything that notices may be about.

        None: the caller reads it when `start` has returned. Earlier notices are ignored, and deleted when they are old.
        """
        # Before the notices are read, which arms the watch.
        self._notices.access.register_child_change_handler(self._notices.path, self._schedule)
        with self._lock:
            names = self._notices.names()
            self._last_executed = max((self._notices.number(name) for name in names), default=-1)
            if load is not None:
                load()
            self._purge(names)

    def stop(self) -> None:
        """Stop listening. When this returns, no reading is in progress, and the store may be closed."""
        self._notices.access.unregister_child_change_handler(self._notices.path)
        self._stopped.set()
        # A reading in progress holds the lock.
        with self._lock:
            pass

    def _schedule(self) -> None:
        self._scheduler.schedule(self._task, self._read_notices)

    def _read_notices(self) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            names = self._notices.names()
            for name in names:
                if self._stopped.is_set():
                    return
                number = self._notices.number(name)
                if number > self._last_executed:
                    # Noted first: a notice that cannot be handled must not be handled again with each later one.
                    self._last_executed = number
                    self._read_notice(name)
            self._purge(names)

    def _read_notice(self, name: str) -> None:
        notice = self._notices.read(name)
        if notice is None:
            return
        try:
            self._handle(notice.data)
        except Exception:
            # A notice that cannot be handled must not keep the later ones from being handled.
            logger.exception("Ignoring the notice %s", name)

    def _purge(self, names: Sequence[str]) -> None:
        """Delete the notices that every broker has had the time to read: from the oldest up to the first young one."""
        now_ms = self._clock.milliseconds()
        old: list[str] = []
        for name in names:
            notice = self._notices.read(name)
            if notice is not None and now_ms - notice.created_ms <= NOTICE_LIFETIME_MS:
                break
            old.append(name)
        self._notices.delete(old)
