"""The whole pipeline of a request on one screen.

Call the handler, turn an exception into its error answer, release the frame, run the actions that other requests wait
for. `Apis.handle` runs on a request handler thread, or at once on the Processor's for brief requests; it is the same
function either way. It holds no lock, so the action queue may be drained here.

Kafka: KafkaApis.handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.api.brief import NeedsHandlerThread
from barnabas.api.request import Request, mypyc_attr
from barnabas.purgatory.action_queue import ActionQueue


@mypyc_attr(allow_interpreted_subclasses=True)
class Apis:
    """Runs requests. nanoseconds: the clock's monotonic time, bound once because every request asks for it."""

    def __init__(self, actions: ActionQueue, nanoseconds: Callable[[], int]) -> None:
        self._actions = actions
        self._pending_actions = actions.pending
        self._nanoseconds = nanoseconds

    def handle(self, request: Request[Any]) -> None:
        """Have `request` answered, now or by the operation that its handler left waiting. Ordinary exceptions end
        here."""
        moved = False
        try:
            request.handler.handle(request)
        except NeedsHandlerThread as needed:
            # The frame and the time stamps go along: only the thread changes.
            moved = True
            request.brief = False
            needed.queue(request, self.handle_moved)
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            request.fail(error)
        finally:
            # In this order: the stamp ends the request's own time, before this thread works for other requests; the
            # buffer goes back before their answers are made, so that a burst needs as few buffers as possible.
            if not moved:
                if request.local_complete_ns == 0:
                    request.local_complete_ns = self._nanoseconds()
                request.release_buffer()
            # Last, and without any lock: an action may complete other requests, which take locks of their own.
            if self._pending_actions:
                self._actions.run_all()

    def handle_moved(self, request: Request[Any]) -> None:
        """Handle a request that was handed over, on a handler's thread; its wait so far counts as time in the queue."""
        request.dequeued_ns = self._nanoseconds()
        self.handle(request)
