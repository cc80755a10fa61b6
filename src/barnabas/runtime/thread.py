"""A thread that repeats one step until it is stopped.

Base of the broker's own loops (fetchers, channels, senders). Its state is two events, set by any thread and read by
the loop, so no lock. Kafka: ShutdownableThread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class ShutdownableThread:
    """Runs `do_work()` until `shutdown()`.

    An exception in a step is logged and ends the thread, as in Kafka, unless `survive_errors` is set. Through
    `on_failure` the broker treats the end of a core thread as fatal. `on_end` is the thread's last step, however the
    loop ends.
    """

    def __init__(
        self,
        name: str,
        do_work: Callable[[], None],
        *,
        daemon: bool = True,
        survive_errors: bool = False,
        on_failure: Callable[[BaseException], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._do_work = do_work
        self._survive_errors = survive_errors
        self._on_failure = on_failure
        self._on_end = on_end
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=daemon)

    @property
    def is_running(self) -> bool:
        """Whether the loop may take another step."""
        return not self._stopping.is_set()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the loop. Raises RuntimeError when started twice."""
        self._thread.start()

    def initiate_shutdown(self) -> bool:
        """Ask the loop to end after its current step. Returns True if this call was the first."""
        first = not self._stopping.is_set()
        self._stopping.set()
        return first

    def await_shutdown(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread to end. Returns False if it has not ended in time, or is the calling thread."""
        if self._thread.ident is None:
            return True
        if self._thread is threading.current_thread():
            return False
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def shutdown(self) -> None:
        """Ask the loop to end, and wait for it."""
        self.initiate_shutdown()
        self.await_shutdown()

    def pause(self, seconds: float) -> bool:
        """Sleep in a step that has nothing to do, until shutdown at most. Returns True if shutdown was requested."""
        return self._stopping.wait(seconds)

    def _run(self) -> None:
        try:
            self._loop()
        finally:
            if self._on_end is not None:
                self._on_end()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._do_work()
            except Exception as error:
                # A step may fail because the stop has closed its sockets or files: that is no error to report.
                if self._stopping.is_set():
                    logger.debug("%s: error while stopping", self.name, exc_info=True)
                    return
                logger.exception("%s: error in the loop", self.name)
                if not self._survive_errors:
                    self._stopping.set()
                    if self._on_failure is not None:
                        self._on_failure(error)
