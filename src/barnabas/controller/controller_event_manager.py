"""The controller's event queue and its thread, `controller-event`.

Made by `controller`; any thread calls `put`. `_lock` guards the queue. Events are handled without the lock, and counted
in `stats` on the controller's thread. A test passes `threaded=False` and calls `run_pending`.
Kafka: kafka.controller.ControllerEventManager.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from barnabas.controller.controller_events import ControllerEvent
from barnabas.controller.controller_state import ControllerState, ControllerStats, state_while_handling
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock, SystemClock
from barnabas.zk.store.errors import StoreUnavailableError

logger = logging.getLogger(__name__)


class ControllerEventManager:
    """The queue: events go to `process` one at a time, in order, and events that are dropped to `preempt`."""

    def __init__(
        self,
        process: Callable[[ControllerEvent], None],
        preempt: Callable[[ControllerEvent], None],
        *,
        stats: ControllerStats | None = None,
        clock: Clock | None = None,
        threaded: bool = True,
    ) -> None:
        self._stats = ControllerStats() if stats is None else stats
        self._now = (SystemClock() if clock is None else clock).nanoseconds
        self._process = process
        self._preempt = preempt
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._taken = threading.Condition(self._lock)
        # Each event with the time at which it was queued, in nanoseconds.
        self._events: deque[tuple[ControllerEvent, int]] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="controller-event", daemon=True) if threaded else None

    @property
    def size(self) -> int:
        """The number of events that wait."""
        return len(self._events)

    def start(self) -> None:
        """Begin to handle events."""
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """Wait for the event being handled, preempt the others, and reject later ones."""
        with self._lock:
            self._closed = True
            dropped = [event for event, _ in self._events]
            self._events.clear()
            self._arrived.notify_all()
            self._taken.notify_all()
        # Without the lock: a callback may queue an event, or take locks of its own.
        for event in dropped:
            self._preempt(event)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def put(self, event: ControllerEvent) -> None:
        """Queue an event. It is preempted at once if the controller is closed."""
        with self._lock:
            if not self._closed:
                self._events.append((event, self._now()))
                self._arrived.notify()
                return
        self._preempt(event)

    def clear_and_put(self, event: ControllerEvent) -> None:
        """Preempt everything queued, queue an event, and return when its handling begins, or the controller is closed.

        The event before it has ended then. Without a thread of its own (tests) it does not wait.
        """
        with self._lock:
            dropped = [event for event, _ in self._events]
            self._events.clear()
        for queued in dropped:
            self._preempt(queued)
        self.put(event)
        if self._thread is not None and threading.current_thread() is not self._thread:
            with self._lock:
                while any(queued is event for queued, _ in self._events):
                    self._taken.wait()

    def run_pending(self) -> int:
        """Handle the queued events, and those they cause, on the calling thread (tests). Return their number."""
        handled = 0
        while True:
            with self._lock:
                if not self._events:
                    return handled
                event, queued_ns = self._events.popleft()
            self._handle(event, queued_ns)
            handled += 1

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._events and not self._closed:
                    self._arrived.wait()
                if self._closed:
                    return
                event, queued_ns = self._events.popleft()
                self._taken.notify_all()
            self._handle(event, queued_ns)

    def _handle(self, event: ControllerEvent, queued_ns: int) -> None:
        stats = self._stats
        state = stats.state = state_while_handling(event)
        started_ns = self._now()
        stats.event_queue_time_ms.update((started_ns - queued_ns) // NANOSECONDS_PER_MILLISECOND)
        try:
            self._process(event)
        except StoreUnavailableError as error:
            # Usual at the end of a session with ZooKeeper. The controller of the next session reads everything again.
            logger.warning("Event %s was not handled: %s", event, error)
        except Exception:
            # A failed event must not end the controller: the next event may repair what this one left.
            logger.exception("Uncaught error processing event %s", event)
        finally:
            timer = stats.timers.get(state)
            if timer is not None:
                timer.update(self._now() - started_ns)
            stats.state = ControllerState.IDLE
