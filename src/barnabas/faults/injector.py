"""The hook in front of the handlers: it asks the fault table about each request, and performs what is due.

Made by `fault_layer` while the broker builds its table of APIs. `intercepted` returns a table whose lines all lead to
`handle`, with the marks of the lines they stand for. So the hook is no step of the pipeline: a broker without faults
has the real lines in its table, and nothing else. Runs on the thread that runs the request; what it shares with others
is in FaultTable and HeldRequests, which have locks.

    parser -> Request(handler = our line) -> Apis.handle -> handle -+-> the real line     no fault
                                                                    +-> AnswerTap, then the real line     "after"
                                                                    +-> BeforeHandling     "before"

`handle` first puts the real line into the request. From there on the request is like any other: quotas, metrics and its
error answer come from that line, and a request that asks for a handler's thread (NeedsHandlerThread) is not matched a
second time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from barnabas.api.brief import Brief
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.faults.actions import BlackHole, Delay, Drop, Error
from barnabas.faults.fault_plan import RequestFacts
from barnabas.faults.fault_table import DueFault, FaultTable
from barnabas.faults.held_requests import HeldRequests
from barnabas.faults.interception import AnswerTap, BeforeHandling, Interception
from barnabas.faults.named_topics import named_topics
from barnabas.protocol.errors import ApiError
from barnabas.purgatory.timer import Timer

logger = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """The parts of a broker that faults need."""

    timer: Timer
    handle_moved: Callable[[Request[Any]], None]
    """Runs a request that has waited (Apis.handle_moved)."""
    topic_names: Callable[[], Mapping[bytes, str]]
    """The names of topics by id, now."""
    own_client_id: str
    """The client id of this broker's requests to itself, which no fault touches."""


class FaultInjector:
    """The hook. kill: ends the process by SIGKILL."""

    def __init__(
        self, registry: Registry, table: FaultTable, surroundings: Surroundings, kill: Callable[[], None]
    ) -> None:
        self._handlers = registry.handlers
        self._table = table
        self._surroundings = surroundings
        self._kill = kill
        self._held = HeldRequests()

    def intercepted(self) -> Registry:
        """Return the table whose lines lead here.

        Those of late families (`api.registry`) stay as they are at a start: all their requests run on handler
        threads.
        """
        return Registry(
            handler.redirected(self.handle, Brief(handler.brief_from, handler.brief_bytes))
            for handler in self._handlers.values()
        )

    def handle(self, request: Request[Any]) -> None:
        """Do what a fault wants, or have the request handled. Raises what its handler raises."""
        handler: Handler = self._handlers[request.handler.api_key]
        request.handler = handler
        due = self._due(request)
        if due is not None:
            logger.info(
                "fault %d hits %s of %r: %r", due.fault_id, handler.api_key.name, request.header.client_id, due.action
            )
            if due.action.when == "before":
                self._perform(due, BeforeHandling(request, self._surroundings.handle_moved))
                return
            request.channel = AnswerTap(request.channel, partial(self._perform, due))
        handler.handle(request)

    def stop(self) -> None:
        """Close the connections of all requests that are held back, now and from now on."""
        self._held.close_all()

    def _due(self, request: Request[Any]) -> DueFault | None:
        client_id = request.header.client_id
        # The controller speaks to its own broker over the network too. A fault for all APIs is meant for clients, and
        # would otherwise keep the broker from learning what it leads.
        if client_id == self._surroundings.own_client_id:
            return None
        return self._table.due(RequestFacts(request.handler.api_key, client_id, partial(self._topics_of, request)))

    def _topics_of(self, request: Request[Any]) -> set[str]:
        names = self._surroundings.topic_names()
        return {each if isinstance(each, str) else names.get(each, "") for each in named_topics(request.body)}

    def _perform(self, due: DueFault, interception: Interception) -> None:
        action = due.action
        if isinstance(action, Delay):
            interception.keep()
            self._held.hold(interception)
            self._surroundings.timer.add(action.time_ms, partial(self._end_delay, interception))
        elif isinstance(action, Error):
            interception.fail(ApiError(action.error_code, f"fault {due.fault_id} of the test kit"))
        elif isinstance(action, Drop):
            interception.close()
        elif isinstance(action, BlackHole):
            self._held.hold(interception)
        else:
            self._kill()

    def _end_delay(self, interception: Interception) -> None:
        if self._held.take(interception):
            interception.proceed()
