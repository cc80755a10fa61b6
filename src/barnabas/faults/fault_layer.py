"""The faults of one broker: the hook in front of the handlers, the requests held back, table and control channel.

FaultLayer is made by `barnabas serve` when the test kit has started it with the pipes, and handed to the BrokerServer;
the main thread calls all its methods. Without the pipes no module of this package is imported. FaultInjector runs on
the thread that runs the request; what it shares with others is in FaultTable and HeldRequests, which have locks.

`intercepted` returns a table of APIs whose lines all lead to `handle`, with the marks of the lines they stand for. So
the hook is no step of the pipeline: a broker without faults has the real lines in its table, and nothing else.

    parser -> Request(handler = our line) -> Apis.handle -> handle -+-> the real line     no fault
                                                                    +-> AnswerTap, then the real line     "after"
                                                                    +-> BeforeHandling     "before"

`handle` first puts the real line into the request. From there on the request is like any other: quotas, metrics and its
error answer come from that line, and a request that asks for a handler's thread (NeedsHandlerThread) is not matched a
second time.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from barnabas.api.brief import Brief
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.faults.control_channel import ControlChannel, PipeEnds
from barnabas.faults.fault_plan import BlackHole, Delay, Drop, Error, RequestFacts
from barnabas.faults.fault_table import DueFault, FaultTable
from barnabas.faults.interception import AnswerTap, BeforeHandling, Interception
from barnabas.faults.named_topics import named_topics
from barnabas.protocol.errors import ApiError
from barnabas.purgatory.timer import SystemTimer

logger = logging.getLogger(__name__)


class HeldRequests:
    """The requests that are held back, until their delay is over or for ever. Any thread; `_lock` guards the set.

    A stopping broker waits for the answers to the requests it has taken, so it first closes the connections of these.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Interception] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, interception: Interception) -> None:
        """Hold a request back. After `close_all` its connection is closed at once."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._held.add(interception)
        if is_closed:
            interception.close()

    def take(self, interception: Interception) -> bool:
        """Take a request out. Returns False if `close_all` was first."""
        with self._lock:
            is_held = interception in self._held
            self._held.discard(interception)
        return is_held

    def close_all(self) -> None:
        """Close the connections of all held requests, now and from now on."""
        with self._lock:
            self._is_closed = True
            held, self._held = self._held, set()
        # Outside the lock: the network takes locks of its own.
        for interception in held:
            interception.close()


class BrokerParts(NamedTuple):
    """The parts of a broker that faults need."""

    timer: SystemTimer
    handle_moved: Callable[[Request[Any]], None]
    """Runs a request that has waited (Apis.handle_moved)."""
    topic_names: Callable[[], Mapping[bytes, str]]
    """The names of topics by id, now."""
    own_client_id: str
    """The client id of this broker's requests to itself, which no fault touches."""


class FaultInjector:
    """The hook. kill: ends the process by SIGKILL."""

    def __init__(self, registry: Registry, table: FaultTable, broker: BrokerParts, kill: Callable[[], None]) -> None:
        self._handlers = registry.handlers
        self._table = table
        self._broker = broker
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
                self._perform(due, BeforeHandling(request, self._broker.handle_moved))
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
        if client_id == self._broker.own_client_id:
            return None
        return self._table.due(RequestFacts(request.handler.api_key, client_id, partial(self._topics_of, request)))

    def _topics_of(self, request: Request[Any]) -> set[str]:
        names = self._broker.topic_names()
        return {each if isinstance(each, str) else names.get(each, "") for each in named_topics(request.body)}

    def _perform(self, due: DueFault, interception: Interception) -> None:
        action = due.action
        if isinstance(action, Delay):
            interception.keep()
            self._held.hold(interception)
            self._broker.timer.add(action.time_ms, partial(self._end_delay, interception))
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


class FaultLayer:
    """The faults of one broker. ends: the pipes to the test kit (`control_channel.inherited_pipes`)."""

    def __init__(self, ends: PipeEnds) -> None:
        self._ends = ends
        self._table = FaultTable()
        self._injector: FaultInjector | None = None
        self._channel: ControlChannel | None = None

    def intercept(self, registry: Registry, broker: BrokerParts) -> Registry:
        """Return a table of APIs with the hook in front of `registry`'s, and install the faults of the start.

        Raises ConfigError when those faults do not come or are rejected.
        """
        served = [handler.api_key for handler in registry]
        channel = self._channel = ControlChannel(self._ends, self._table, served, broker.own_client_id)
        channel.execute_first()
        self._injector = FaultInjector(registry, self._table, broker, self._kill)
        channel.start()
        return self._injector.intercepted()

    def stop(self) -> None:
        """End every fault: a broker that stops answers its last requests, and held connections are closed."""
        self._table.remove_all()
        if self._injector is not None:
            self._injector.stop()
        if self._channel is not None:
            self._channel.report_now()

    def _kill(self) -> None:
        assert self._channel is not None
        self._channel.report_now()
        # The signal reaches all threads before the call returns: no other instruction of this thread runs.
        os.kill(os.getpid(), signal.SIGKILL)
