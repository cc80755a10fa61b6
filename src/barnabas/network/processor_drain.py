"""How a Processor stops taking requests: to let the broker stop, or because the Processor itself is removed.

`begin` and `begin_retirement` are called by the SocketServer's thread, `wait` by the thread that stops the broker; the
Processor looks at the rest in every turn. No lock: each attribute is written once, and the Processor may see it a turn
late. Kafka: SocketServer.Processor (beginShutdown), which does not wait for answers.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class ProcessorDrain:
    """One way only: not begun, begun, done."""

    __slots__ = ("_done", "_retires_at_ns", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        """The Processor takes no new requests; those it has taken are answered."""
        self._retires_at_ns = 0
        self._done: SimpleQueue[None] = SimpleQueue()

    def begin(self) -> None:
        """Take no new requests."""
        self.has_begun = True

    def begin_retirement(self, at_latest_ns: int) -> None:
        """Take no new requests; close each connection when it is answered, then end: at `at_latest_ns` in any case."""
        self._retires_at_ns = at_latest_ns
        self.has_begun = True

    @property
    def is_retirement(self) -> bool:
        """Whether the Processor closes its connections and ends, rather than wait for the end of the broker."""
        return self._retires_at_ns != 0

    def is_late(self, now_ns: int) -> bool:
        """Whether a retirement has used up its time."""
        return now_ns >= self._retires_at_ns

    def finish(self) -> None:
        """Every request taken has been answered."""
        self._done.put(None)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for `finish`; False if it does not come in time."""
        try:
            self._done.get(timeout=timeout_seconds)
        except Empty:
            return False
        return True
