"""The network threads of one listener: added and removed while running, asked in turn by the Acceptor.

Made by the Acceptor. The SocketServer's thread adds, starts and removes, the Acceptor's thread takes the next one; a
lock guards the list. Kafka: SocketServer.Acceptor (its processors).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.network.processor import Processor
from barnabas.network.served_listener import ServedListener


class ListenerProcessors:
    """The Processors in the order in which they were added; the last ones are removed first."""

    def __init__(self, listener: ServedListener, new_processor: Callable[[ServedListener], Processor]) -> None:
        self._listener = listener
        self._new_processor = new_processor
        self._processors: list[Processor] = []
        self._next = 0
        self._started = False
        self._lock = threading.Lock()

    @property
    def all(self) -> list[Processor]:
        """The Processors, in a list that does not change."""
        with self._lock:
            return list(self._processors)

    @property
    def are_started(self) -> bool:
        """Whether connections are read."""
        return self._started

    def add(self, count: int) -> None:
        """Add Processors; they start now if the others have been started."""
        with self._lock:
            for _ in range(count):
                processor = self._new_processor(self._listener)
                self._processors.append(processor)
                if self._started:
                    processor.start()

    def start(self) -> None:
        """Start the Processors; a second call does nothing."""
        with self._lock:
            if not self._started:
                self._started = True
                for processor in self._processors:
                    processor.start()

    def take_last(self, count: int) -> list[Processor]:
        """Take the last `count` Processors out of the turn, for the caller to retire."""
        with self._lock:
            kept = max(len(self._processors) - count, 0)
            taken = self._processors[kept:]
            del self._processors[kept:]
            return taken

    def next(self) -> Processor | None:
        """Return the Processor whose turn it is; None if all have been removed."""
        with self._lock:
            if not self._processors:
                return None
            self._next %= len(self._processors)
            processor = self._processors[self._next]
            self._next += 1
            return processor
