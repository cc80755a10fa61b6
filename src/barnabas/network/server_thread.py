"""The start and stop of a network thread, shared by Acceptor and Processor.

Started and stopped by the SocketServer. Its state is three latches, two set by the thread itself (at its start and at
its end) and one by the thread that stops it; no lock. Kafka: AbstractServerThread with its start-up and shutdown latch.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

logger = logging.getLogger(__name__)

FatalHandler = Callable[[BaseException], None]
"""A function that stops the broker. It comes from `broker/`, which alone may end the process."""


class AbstractServerThread(ABC):
    """One non-daemon thread that loops until `begin_shutdown`."""

    def __init__(self, name: str, on_fatal: FatalHandler) -> None:
        self.name = name
        self._on_fatal = on_fatal
        self._started = threading.Event()
        self._finished = threading.Event()
        self._stopping = threading.Event()
        # Not a daemon: the process must not end while this thread still owns open sockets and half-sent answers.
        self._thread = threading.Thread(target=self._main, name=name, daemon=False)

    def start(self) -> None:
        """Start the loop; a second start is harmless."""
        if self._thread.ident is None:
            self._thread.start()

    def startup_complete(self) -> None:
        """Tell those who wait for the start that the loop takes its turns. The thread calls it, in `run`."""
        self._started.set()

    def await_startup(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the loop takes its turns; whether it does. A thread that died before that ends the wait, too."""
        return self._started.wait(timeout_seconds)

    @property
    def is_running(self) -> bool:
        """Whether the loop may take another turn."""
        return not self._stopping.is_set()

    def begin_shutdown(self) -> None:
        """Ask the loop to end after its current turn."""
        self._stopping.set()
        self.wakeup()

    def await_shutdown(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the loop has ended and closed its sockets.

        The caller closes the sockets of a loop that never ran.
        """
        if self._thread.ident is None:
            self.close()
            return True
        return self._finished.wait(timeout_seconds)

    @abstractmethod
    def run(self) -> None:
        """Call `startup_complete`, then loop until `is_running` is false."""

    @abstractmethod
    def wakeup(self) -> None:
        """Interrupt the loop's wait. Any thread may call it."""

    @abstractmethod
    def close(self) -> None:
        """Close sockets and the poller, after the loop has ended. A second call is harmless."""

    def _main(self) -> None:
        try:
            self.run()
        except BaseException as error:
            # Without this a broker whose network thread died would run on and serve none of its connections.
            logger.critical("%s died", self.name, exc_info=True)
            self._on_fatal(error)
        finally:
            try:
                self.close()
            finally:
                # A thread that died early never said that it had started: its starter must not wait for ever.
                self._started.set()
                self._finished.set()
