"""The waits of the consumer's thread for a condition: in its network client, so that fetches go on.

Owned by the consumer's thread, except `wakeup`, which any thread may call: its flag is an Event. The coordinator
channel wakes the network client too, whenever an answer was handled. Kafka: ConsumerNetworkClient.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.errors import WokenUp


class ConsumerWaiting:
    """Waits that `wakeup` interrupts. Times are monotonic milliseconds."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._woken = threading.Event()
        self._disabled = False

    def wakeup(self) -> None:
        """Make the call that waits now, or else the next one that may wait, raise WokenUp."""
        # The flag comes before the wake-up: a thread that wakes before the flag is set would sleep again.
        self._woken.set()
        self._client.network.wakeup()

    def forget(self) -> None:
        """Undo a `wakeup` that no call has noticed. On the consumer's thread."""
        self._woken.clear()

    def disable(self) -> None:
        """Ignore `wakeup` from now on, because the consumer is being closed."""
        self._disabled = True

    def raise_if_woken(self) -> None:
        """Check for a wakeup. Raises WokenUp if `wakeup` was called since the last check."""
        if not self._disabled and self._woken.is_set():
            self._woken.clear()
            raise WokenUp("The consumer was woken up")

    def until(self, is_done: Callable[[], bool], deadline_ms: int, longest_poll_ms: int = 1_000) -> bool:
        """Wait until `is_done()` or the deadline, and return whether it is done.

        Raises WokenUp, and what `is_done` raises.
        """
        while True:
            self.raise_if_woken()
            if is_done():
                return True
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                return False
            self._client.poll(min(left_ms, longest_poll_ms))
