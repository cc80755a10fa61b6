"""A request's whole pipeline on one screen: call its handler, turn what is raised into its error answer, let go of
the frame, complete what others were waiting for.

`Apis.handle` runs on a request handler thread, or at once on the Processor's for brief requests; it is the same
function either way. It holds no lock, so the action queue may be drained here.

Kafka: KafkaApis.handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.api.brief import NeedsHandlerThread
from barnabas.api.request import Request
from barnabas.purgatory.action_queue import ActionQueue


class Apis:
    """Runs requests. nanoseconds: the clock's monotonic time, bound once because every request asks for it."""

    def __init__(self, actions: ActionQueue, nanoseconds: Callable[[], int]) -> None:
        self._actions = actions
        self._pending_actions = actions.pending
        self._nanoseconds = nanoseconds

    def handle(self, request: Request[Any]) -> None:
        """Answer `request`, now or through whatever its handler left waiting. Ordinary exceptions end here."""
        moved = False
        try:
            request.handler.handle(request)
        except NeedsHandlerThread:
            moved = True
            request.brief = False
            request.channel.resume(lambda: self.handle_moved(request))
        except Exception as error:  # noqa: BLE001 - `fail` logs it
            request.fail(error)
        finally:
            if not moved:
                if request.local_complete_ns == 0:
                    request.local_complete_ns = self._nanoseconds()
                request.release_buffer()
            if self._pending_actions:
                self._actions.run_all()

    def handle_moved(self, request: Request[Any]) -> None:
        """`handle`, as a continuation on a handler's thread: what the request has waited was its time in a queue."""
        request.dequeued_ns = self._nanoseconds()
        self.handle(request)
