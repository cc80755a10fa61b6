"""What a Selector does now and then: close idle channels, let go of receive buffers that have not been needed.

Owned by the Selector's thread; no lock. Kafka: Selector.maybeCloseOldestConnection.
"""

from __future__ import annotations

from typing import Final

from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.open_channels import OpenChannels

DROP_BUFFERS_NS: Final = 30_000_000_000
"""How often receive buffers that were not needed since the last time are let go."""


class Upkeep:
    """Two chores, and the time when the next one is due: one comparison a poll."""

    __slots__ = ("_buffers", "_channels", "_drop_buffers_ns", "due_ns")

    def __init__(self, channels: OpenChannels, buffers: FrameBufferPool, now_ns: int) -> None:
        self._channels = channels
        self._buffers = buffers
        self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns = 0
        """Before this time there is nothing to do."""

    def run(self, now_ns: int) -> None:
        """Do what is due."""
        next_idle_ns = self._channels.close_idle(now_ns)
        if now_ns >= self._drop_buffers_ns:
            self._buffers.drop_unused()
            self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns = min(next_idle_ns, self._drop_buffers_ns)
