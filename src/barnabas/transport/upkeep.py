"""The occasional work of a Selector: close idle channels, and free receive buffers that were not needed.

Owned by the Selector's thread; no lock. Kafka: Selector.maybeCloseOldestConnection.
"""

from __future__ import annotations

from typing import Final

from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.open_channels import OpenChannels

DROP_BUFFERS_NS: Final = 30_000_000_000
"""The interval at which receive buffers are freed that were not needed since the last time."""


class Upkeep:
    """The two tasks, and the time at which the next one is due, so that a poll costs one comparison."""

    __slots__ = ("_buffers", "_channels", "_drop_buffers_ns", "due_ns")

    def __init__(self, channels: OpenChannels, buffers: FrameBufferPool, now_ns: int) -> None:
        self._channels = channels
        self._buffers = buffers
        self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns = 0
        """The time before which there is nothing to do."""

    def run(self, now_ns: int) -> None:
        """Run the tasks that are due."""
        next_idle_ns = self._channels.close_idle(now_ns)
        if now_ns >= self._drop_buffers_ns:
            self._buffers.drop_unused()
            self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns = min(next_idle_ns, self._drop_buffers_ns)
