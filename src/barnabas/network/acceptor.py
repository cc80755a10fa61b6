"""The thread that accepts one listener's connections and hands them to its Processors in turn.

Its thread owns the server socket and the throttled connections; `ListenerProcessors` has a lock of its own, since
Processors are added and removed while running.

A connection passes three tests: the quotas (which may keep this thread waiting until there is room, or refuse the
address), the socket's options (the client may be gone by now), and a Processor with room. The Processors are asked in
turn; each has a queue of 20, and the Acceptor waits only for the last one it asks.

Kafka: SocketServer.Acceptor (its processors, throttledSockets), DataPlaneAcceptor, DelayedCloseSocket.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from barnabas.config.listeners import EndPoint
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.network.connections.connection_quotas import ConnectionQuotas, ConnectionThrottled, TooManyConnections
from barnabas.network.network_config import MAPPED_IPV4, SYSTEM_BUFFER, ListenerConfig
from barnabas.network.processor import Processor
from barnabas.network.server_thread import AbstractServerThread, FatalHandler
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.transport.channel.transport_layer import is_connection_lost
from barnabas.transport.poller import READABLE, Wakeup, default_poller

logger = logging.getLogger(__name__)

SELECT_SECONDS: Final = 0.5
RETIREMENT_MS: Final = 30_000
"""How long a removed network thread waits for answers. No other thread waits for the removed one, and a request may
stay in a purgatory for its whole timeout, so this is long."""


class _ThrottledConnections:
    """Accepted connections of addresses that connect too often: each is closed, without being served, after its delay.

    The delay slows a client that reconnects in a loop, which an immediate close would not. Times in nanoseconds.
    """

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any]] = []
        self._numbers = itertools.count()  # equal times must not compare sockets

    def add(self, close_ns: int, accepted: Any) -> None:
        """Close `accepted` at `close_ns`."""
        heapq.heappush(self._heap, (close_ns, next(self._numbers), accepted))

    def close_due(self, now_ns: int) -> None:
        """Close the sockets whose delay is over."""
        while self._heap and self._heap[0][0] <= now_ns:
            heapq.heappop(self._heap)[2].close()

    def seconds_left(self, now_ns: int, at_most: float) -> float:
        """Return the seconds until the next socket is due, but no more than `at_most`."""
        if not self._heap:
            return at_most
        return min(max(self._heap[0][0] - now_ns, 0) / 1e9, at_most)

    def close_all(self) -> None:
        """Close every socket now, whatever its delay."""
        while self._heap:
            self._heap.pop()[2].close()


class ListenerProcessors:
    """The network threads of one listener, in the order in which they were added; the last ones are removed first.

    The SocketServer's thread adds, starts and removes, the Acceptor's takes the next one; `_lock` guards the list.
    """

    def __init__(self, listener: ServedListener, new_processor: Callable[[ServedListener], Processor]) -> None:
        self._listener = listener
        self._new_processor = new_processor
        self._processors: list[Processor] = []
        self._next = 0
        self._started = False
        self._lock = threading.Lock()

    @property
    def all(self) -> list[Processor]:
        """The Processors, in a list that does not change."""
        with self._lock:
            return list(self._processors)

    @property
    def are_started(self) -> bool:
        """Whether connections are read."""
        return self._started

    def add(self, count: int) -> None:
        """Add Processors; they start now if the others have been started."""
        with self._lock:
            for _ in range(count):
                processor = self._new_processor(self._listener)
                self._processors.append(processor)
                if self._started:
                    processor.start()

    def start(self) -> None:
        """Start the Processors; a second call does nothing."""
        with self._lock:
            if not self._started:
                self._started = True
                for processor in self._processors:
                    processor.start()

    def take_last(self, count: int) -> list[Processor]:
        """Take the last `count` Processors out of the turn, for the caller to retire."""
        with self._lock:
            kept = max(len(self._processors) - count, 0)
            taken = self._processors[kept:]
            del self._processors[kept:]
            return taken

    def next(self) -> Processor | None:
        """Return the Processor whose turn it is; None if all have been removed."""
        with self._lock:
            if not self._processors:
                return None
            self._next %= len(self._processors)
            processor = self._processors[self._next]
            self._next += 1
            return processor


class Acceptor(AbstractServerThread):
    """The acceptor of one end point.

    `server_socket` listens already: clients may connect before the broker is ready.
    """

    def __init__(
        self,
        end_point: EndPoint,
        listener: ServedListener,
        server_socket: Any,
        config: ListenerConfig,
        quotas: ConnectionQuotas,
        new_processor: Callable[[ServedListener], Processor],
        clock: Clock,
        on_fatal: FatalHandler,
    ) -> None:
        super().__init__(f"{listener.plane}-kafka-socket-acceptor-{listener}-{end_point.port}", on_fatal)
        self.end_point = end_point
        self.listener = listener
        self.blocked_ns = 0
        """Time spent waiting for room for a connection, or for a Processor to take it: for AcceptorBlockedPercent."""
        self._server_socket = server_socket
        self._config = config
        self._quotas = quotas
        self._now = clock.nanoseconds
        self._poller = default_poller()
        self._wakeup = Wakeup()
        self._processors = ListenerProcessors(listener, new_processor)
        self._throttled = _ThrottledConnections()
        self._closed = False
        self._poller.register(server_socket.fileno(), reads_only=True)
        self._poller.register(self._wakeup.fileno(), reads_only=True)

    @property
    def processors(self) -> list[Processor]:
        """The network threads of this listener."""
        return self._processors.all

    @property
    def is_started(self) -> bool:
        """Whether connections are accepted and read."""
        return self._processors.are_started

    def add_processors(self, count: int) -> None:
        """Add network threads; they start now if the others have been started."""
        self._processors.add(count)

    def start_processors(self) -> None:
        """Start the network threads; a second call does nothing."""
        self._processors.start()

    def remove_processors(self, count: int) -> list[Processor]:
        """Remove the last `count` network threads and return them; the caller waits for their end if it needs to.

        A removed thread takes no new connection or request, answers the requests it has taken, and closes its
        connections. Connections that it has been given and not configured go to the remaining threads.
        """
        removed = self._processors.take_last(count)
        for processor in removed:
            logger.info("Removing %s, which has %d connections", processor.name, processor.connection_count)
            for new in processor.begin_retirement(RETIREMENT_MS):
                # The quotas count these connections already: a connection that no thread takes is taken off again.
                if not self._assign(new.stream_socket, new.address):
                    self._drop(new.stream_socket, new.address)
            if not self._processors.are_started:
                processor.begin_shutdown()
                processor.await_shutdown()
        return removed

    def run(self) -> None:
        """Accept connections until `begin_shutdown`. An error is logged, and the loop goes on."""
        self.startup_complete()
        while self.is_running:
            try:
                for fd, _ in self._poller.poll(self._throttled.seconds_left(self._now(), SELECT_SECONDS)):
                    if fd == self._wakeup.fileno():
                        self._wakeup.drain()
                # Without an event too: after an error such as EMFILE the Poller says nothing more of the connections
                # that still wait in the listen queue, for an edge is reported once. Each turn tries again, twice a
                # second.
                self.accept_new_connections()
                self.close_throttled_connections()
            except Exception:
                logger.exception("%s: error while accepting", self.name)

    def accept_new_connections(self) -> None:
        """Accept connections until the listen queue is empty."""
        while self.is_running:
            try:
                accepted, remote = self._server_socket.accept()
            except BlockingIOError:
                if self._poller.needs_rearm:
                    self._poller.rearm(self._server_socket.fileno(), READABLE)
                return
            except OSError as error:
                if is_connection_lost(error):
                    # Only this one: its client has gone while it waited in the listen queue, and others may wait there.
                    logger.debug("A connection on %s was lost: %s", self.end_point.connection_string, error)
                    continue
                if self.is_running:
                    logger.warning("Error while accepting on %s: %s", self.end_point.connection_string, error)
                return
            self._admit(accepted, remote[0].removeprefix(MAPPED_IPV4))

    def close_throttled_connections(self) -> None:
        """Close the connections of throttled addresses whose delay is over."""
        self._throttled.close_due(self._now())

    def wakeup(self) -> None:
        """Interrupt the poll, and the wait for a connection slot."""
        self._wakeup.wake()

    def close(self) -> None:
        """Close the server socket. A second call is harmless."""
        if not self._closed:
            self._closed = True
            self._server_socket.close()
            self._throttled.close_all()
            self._poller.close()
            self._wakeup.close()

    def _admit(self, accepted: Any, address: str) -> None:
        try:
            self.blocked_ns += self._quotas.increment(self.listener.name, address)
        except TooManyConnections as error:
            logger.info(
                "Rejected connection from %s, address already has the configured maximum of %d connections.",
                address,
                error.limit,
            )
            accepted.close()
            return
        except ConnectionThrottled as error:
            logger.debug("Delaying closing of connection from %s for %d ms", address, error.delay_ms)
            self._throttled.add(self._now() + error.delay_ms * NANOSECONDS_PER_MILLISECOND, accepted)
            return
        try:
            # The client may be gone by now: then setting an option fails, and costs this one connection.
            accepted.setblocking(False)
            # Otherwise Nagle's algorithm holds a small answer back until the client has acknowledged the one before.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._config.send_buffer_bytes != SYSTEM_BUFFER:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
            assigned = self._assign(accepted, address)
        except OSError as error:
            # On some systems an option can no longer be set (EINVAL) once the client has reset the connection.
            is_lost = is_connection_lost(error) or error.errno == errno.EINVAL
            level = logging.DEBUG if is_lost else logging.WARNING
            logger.log(level, "Connection from %s was closed before it was accepted: %s", address, error)
            assigned = False
        if not assigned:
            self._drop(accepted, address)

    def _drop(self, accepted: Any, address: str) -> None:
        accepted.close()
        self._quotas.decrement(self.listener.name, address)

    def _assign(self, accepted: Any, address: str) -> bool:
        """Ask the Processors in turn, waiting only for the last one. False while stopping."""
        while True:
            count = len(self._processors.all)
            for attempts_left in range(count - 1, -1, -1):
                processor = self._processors.next()
                if processor is None:
                    return False
                started_ns = self._now()
                if processor.accept(accepted, address, may_block=attempts_left == 0):
                    self.blocked_ns += self._now() - started_ns
                    return True
            if not (count and self.is_running):
                return False

            # The last Processor was removed while this thread waited for room in it: the others may have room by now.


def open_server_socket(end_point: EndPoint, config: ListenerConfig) -> socket.socket:
    """Bind and listen; port 0 takes a free one. Raises OSError, naming the end point, when that fails."""
    family = socket.AF_INET6 if ":" in end_point.host else socket.AF_INET
    host = end_point.host
    # An end point without a host means every address: one socket of both families, if the system has such sockets.
    if not host and socket.has_dualstack_ipv6():
        family = socket.AF_INET6
    server_socket = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A broker that restarts may bind its port while connections of its last run are still in TIME_WAIT.
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        if config.receive_buffer_bytes != SYSTEM_BUFFER:
            # On the listening socket, because the window's scale is settled by the TCP handshake (RFC 7323).
            server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)
        server_socket.bind((host, end_point.port))
        server_socket.listen(config.listen_backlog)
        server_socket.setblocking(False)
    except OSError as error:
        server_socket.close()
        raise OSError(
            error.errno, f"Socket server failed to bind to {end_point.host_and_port}: {error.strerror}."
        ) from error
    return server_socket
