"""The thread that runs a producer's Sender, from the producer's construction to its end.

Made by Producer. Any thread asks whether the producer may still be used, and ends it. `_closed` goes from False to True
and never back, so no lock guards it. Kafka: KafkaThread.

A producer ends in one of three ways:

    closed by another thread        the remaining batches are sent, then the thread ends; `close` waits for that
    closed in a delivery callback   the thread cannot wait for its own end, so the remaining batches fail
    closed in a forked child        the thread does not exist there: nothing is sent, and `close` waits for nothing

Every `send` asks whether it runs in a forked child. The answer is an object that a fork replaces in the child: to
compare it costs a tenth of the system call for the number of the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.clients.errors import ClientClosed
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.producer.sending.sender import Sender

if TYPE_CHECKING:
    from barnabas.clients.telemetry.client_telemetry import ClientTelemetry

_process = object()
"""Another object in a forked child."""


def _begin_child() -> None:
    global _process  # noqa: PLW0603
    _process = object()


os.register_at_fork(after_in_child=_begin_child)


class SenderThread:
    """The daemon thread of one producer. `metadata` is closed with it: calls that wait for metadata then fail.

    `telemetry`: the part of the sender that pushes the metrics, or None.
    """

    def __init__(
        self, sender: Sender, metadata: ClusterMetadata, client_id: str, telemetry: ClientTelemetry | None = None
    ) -> None:
        self.telemetry = telemetry
        self.wake: Callable[[], None] = sender.wakeup
        """Tells the thread of a new batch: at once, or when `Producer.defer_wakeups` says."""
        self._sender = sender
        self._metadata = metadata
        self._closed = False
        self._is_aborted = False
        self._process = _process
        self._thread = threading.Thread(
            target=sender.run, name=f"kafka-producer-network-thread | {client_id}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def check_usable(self) -> None:
        """Check that the producer may be used. Raises ClientClosed after `close`, and in a forked child."""
        if self._closed:
            raise ClientClosed("Cannot perform operation after producer has been closed")
        if _process is not self._process:
            raise ClientClosed("A producer does not survive a fork: make one in the child")

    def is_current(self) -> bool:
        """Return whether the caller runs on this thread, as delivery callbacks do."""
        return threading.current_thread() is self._thread

    def is_alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()

    def join(self, timeout_seconds: float | None = None) -> None:
        """Wait until the thread has ended, or for that long."""
        self._thread.join(timeout_seconds)

    def close(self, timeout_ms: float | None) -> bool:
        """Send the remaining records and end the thread. Those that remain after `timeout_ms` (None: never) fail.

        After `abort`, wait for the end of the thread. Returns False when there was nothing to end: after an earlier
        call, and in a forked child.
        """
        if self._closed:
            # `abort` does not wait. A `close` that was already under way in another thread may begin only after it.
            if self._is_aborted and _process is self._process and not self.is_current():
                self.join()
            return False
        self._closed = True
        # A forked child has no sending thread to end: threads do not survive a fork.
        if _process is not self._process:
            return False
        self._sender.initiate_close()
        self._metadata.close()
        if self.is_current():
            self._sender.force_close()
        else:
            self.join(None if timeout_ms is None else timeout_ms / 1000)
            if self.is_alive():
                self._sender.force_close()
                self.join()
        return True

    def abort(self) -> None:
        """Fail the remaining records and end the thread soon, also while another thread waits in `close`."""
        self._closed = self._is_aborted = True
        # A forked child has no sending thread to end.
        if _process is self._process:
            self._metadata.close()
            self._sender.force_close()
