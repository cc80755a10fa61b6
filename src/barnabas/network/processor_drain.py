"""The end of a Processor's intake of requests, because the broker stops or because the Processor itself is removed.

`begin` and `begin_retirement` are called by the SocketServer's thread, `wait` by the thread that stops the broker; the
Processor looks at the rest in every turn. No lock: each attribute is written once, and the Processor may see it a turn
late. Kafka: SocketServer.Processor (beginShutdown), which does not wait for answers.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class ProcessorDrain:
    """A drain that goes one way only: not begun, begun, done."""

    __slots__ = ("_done", "_retires_at_ns", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        """Whether the Processor takes no new requests; those it has taken are still answered."""
        self._retires_at_ns = 0
        self._done: SimpleQueue[None] = SimpleQueue()

    def begin(self) -> None:
        """Take no new requests."""
        self.has_begun = True

    def begin_retirement(self, at_latest_ns: int) -> None:
        """Take no new requests, close each connection when it is answered, then end, at `at_latest_ns` in any case."""
        # In this order: the Processor reads `has_begun` first, and must then find that the drain is a retirement.
        self._retires_at_ns = at_latest_ns
        self.has_begun = True

    @property
    def is_retirement(self) -> bool:
        """Whether the Processor closes its connections and ends by itself, instead of waiting for the broker's stop."""
        return self._retires_at_ns != 0

    def is_late(self, now_ns: int) -> bool:
        """Return whether a retirement has used up its time."""
        return now_ns >= self._retires_at_ns

    def finish(self) -> None:
        """Note that every request taken has been answered."""
        self._done.put(None)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for `finish`; return False if it does not come in time."""
        try:
            self._done.get(timeout=timeout_seconds)
        except Empty:
            return False
        return True
