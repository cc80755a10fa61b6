"""The network layer's entry point: listeners, their threads, and the request queue of each plane.

Built, started and stopped by `broker/` on its main thread; a scheduler's thread changes settings. One lock serializes
their calls. Kafka: SocketServer.

    server = SocketServer(config, end_points, RequestHandling(parser, apis, metrics), clock, on_fatal)
    bound = server.bind()                    # ports are known, clients may connect, nothing is read yet
    server.enable_controller_requests()      # the controller may send the cluster's state
    server.enable_request_processing()       # the broker is ready
    server.stop_processing_requests()        # no new requests; those taken are answered
    server.shutdown()                        # connections and threads are gone

The listener named by `control.plane.listener.name` is a plane of its own (KIP-291): an acceptor, one processor, a queue
of 20, and one handler, made by `broker/`. Every other listener belongs to the data plane.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.api.request import Request
from barnabas.config.listeners import EndPoint
from barnabas.network.acceptor import Acceptor
from barnabas.network.connections.channel_builders import DATA_PLANE, PLAINTEXT_ONLY, ChannelBuilders
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.network.listener_factory import ListenerFactory, Planes
from barnabas.network.network_config import NetworkConfig
from barnabas.network.processor import Processor
from barnabas.network.requests.request_channel import RequestHandling
from barnabas.network.server_thread import FatalHandler
from barnabas.runtime.clock import Clock
from barnabas.runtime.logger_levels import when_levels_change
from barnabas.transport.channel.frame_reader import LARGE_FRAME_BYTES
from barnabas.transport.memory_pool import NONE, MemoryPool

logger = logging.getLogger(__name__)

DRAIN_MS: Final = 1_000
"""How long a stop waits for requests that were taken. A Fetch that long-polls may take longer; its connection closes
without an answer."""

REQUEST_EXPANSION: Final = 8
"""The memory of a small parsed request, as a multiple of its frame: 2,500 names of 20 bytes take 0.5 MB."""
LARGE_FRAME_SHARE: Final = 16
"""A frame of more than 1/16 of queued.max.request.bytes is large: it waits for memory apart from the others."""


class SocketServer:
    """All listeners, of the data plane and of the control plane, and their threads."""

    def __init__(
        self,
        config: NetworkConfig,
        end_points: Sequence[EndPoint],
        handling: RequestHandling,
        clock: Clock,
        on_fatal: FatalHandler,
        *,
        channel_builders: ChannelBuilders = PLAINTEXT_ONLY,
    ) -> None:
        """`on_fatal` stops the broker. channel_builders: of each listener.

        Raises ConfigError for a listener whose security cannot be had, ValueError when the listener of the brokers or
        of the control plane is not among `end_points`.
        """
        names = [end_point.listener_name for end_point in end_points]
        for needed in (config.inter_broker_listener, config.control_plane_listener):
            if needed is not None and needed not in names:
                raise ValueError(f"listener {needed}, which brokers connect to, is not among the listeners {names}")
        planes = Planes(config, handling)
        self.data_plane_request_channel = planes.data.channel
        self.control_plane_request_channel = None if planes.control is None else planes.control.channel
        self.connection_quotas = ConnectionQuotas(config, clock)
        self.memory_pool = _memory_pool(config, clock)
        """The memory of the data plane's frames and answers. The control plane has no limit, so clients cannot hold it
        up."""
        self._factory = ListenerFactory(
            config,
            planes,
            self.connection_quotas,
            self.memory_pool,
            channel_builders,
            clock,
            on_fatal,
        )
        self._factory.check_security(end_points)
        # The controller's own listener comes first, then that of the brokers, so that the cluster works before the
        # first client is served.
        first = (config.control_plane_listener, config.inter_broker_listener)
        self._end_points = sorted(
            end_points, key=lambda end: first.index(end.listener_name) if end.listener_name in first else len(first)
        )
        self._now = clock.nanoseconds
        self._acceptors: list[Acceptor] = []
        self._retiring: list[Processor] = []
        self._processing = False
        self._stopped = False
        self._lock = threading.RLock()
        when_levels_change(self._follow_levels)

    def bind(self) -> list[EndPoint]:
        """Open every listener and return the end points with the ports bound.

        Raises OSError when one cannot be bound; no listener is left open then.
        """
        with self._lock:
            self._acceptors = self._open_all(self._end_points)
            return [acceptor.end_point for acceptor in self._acceptors]

    def enable_controller_requests(self) -> None:
        """Start the controller's listener, the control plane's or else the brokers'. A second call is harmless.

        The listeners of `early.start.listeners` start with it.
        """
        early = self._factory.config.early_start_listeners
        with self._lock:
            if not self._stopped:
                self.connection_quotas.starting(not self._processing)
                self._start(each for each in self._acceptors if each.listener.privileged or each.listener.name in early)

    def enable_request_processing(self) -> None:
        """Start accepting and reading: the control plane, the brokers' listener, then the others. May be repeated."""
        with self._lock:
            if not self._stopped:
                self._processing = True
                self.connection_quotas.starting(False)
                self._start(self._acceptors)

    def add_listeners(self, end_points: Sequence[EndPoint]) -> list[EndPoint]:
        """Listen on more addresses of the data plane, and return them with the ports bound.

        Raises OSError or ConfigError when one cannot be opened, and opens none of them then; ValueError for a listener
        that exists, RuntimeError when stopped.
        """
        self._factory.check_security(end_points)
        with self._lock:
            if self._stopped:
                raise RuntimeError("can't add new listeners: SocketServer is stopped.")
            present = {acceptor.listener.name for acceptor in self._acceptors}
            for end_point in end_points:
                if end_point.listener_name in present:
                    raise ValueError(f"There is a listener {end_point.listener_name} already")
            added = self._open_all(end_points)
            self._acceptors = [*self._acceptors, *added]
            if self._processing:
                self._start(added)
            return [acceptor.end_point for acceptor in added]

    def remove_listeners(self, end_points: Sequence[EndPoint]) -> None:
        """Remove the listeners of these names.

        Their connections close once the requests that were taken are answered.
        """
        names = {end_point.listener_name for end_point in end_points}
        with self._lock:
            removed = [acceptor for acceptor in self._acceptors if acceptor.listener.name in names]
            self._acceptors = [acceptor for acceptor in self._acceptors if acceptor not in removed]
            for acceptor in removed:
                logger.info("Removing listener %s", acceptor.end_point.connection_string)
                self.connection_quotas.remove_listener(acceptor.listener.name)
                acceptor.begin_shutdown()
            for acceptor in removed:
                acceptor.await_shutdown()
                self._remove_processors(acceptor, len(acceptor.processors))

    def bound_port(self, listener_name: str) -> int:
        """Return the port of a listener. Raises KeyError for an unknown one."""
        for acceptor in self._acceptors:
            if acceptor.listener.name == listener_name:
                return acceptor.end_point.port
        raise KeyError(listener_name)

    @property
    def acceptors(self) -> list[Acceptor]:
        """The Acceptors of all listeners, for their metrics."""
        return list(self._acceptors)

    @property
    def processors(self) -> list[Processor]:
        """The network threads of all listeners of both planes, for their metrics."""
        return [processor for acceptor in self._acceptors for processor in acceptor.processors]

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return self.connection_quotas.total

    def reconfigure(self, config: NetworkConfig) -> None:
        """Apply the settings that may change while running: threads of the data plane's listeners, and all limits.

        Surplus network threads take no more requests, answer those they have taken, and close their connections. The
        settings of sockets and queues (buffers, sizes, the brokers' and the controller's listener) stay as at the
        start.
        """
        with self._lock:
            self._factory.config = config
            self.connection_quotas.reconfigure(config)
            for acceptor in self._data_plane_acceptors():
                self._resize(acceptor, config.for_listener(acceptor.listener.name).network_threads)

    def stop_processing_requests(self, drain_ms: float = DRAIN_MS) -> bool:
        """Stop accepting and reading; wait at most `drain_ms` until every request taken is answered.

        The handler pools must still run. Returns False if some requests were not answered in time.
        """
        with self._lock:
            self._stopped = True
            # First the quotas: an Acceptor may be waiting in them, where its own wake-up does not reach it.
            self.connection_quotas.stop()
            self._close_acceptors()
            processors = self._retiring + [
                processor for acceptor in self._acceptors if acceptor.is_started for processor in acceptor.processors
            ]
            # All Processors begin before the wait for the first, because they share one deadline.
            for processor in processors:
                processor.begin_drain()
            deadline_ns = self._now() + int(drain_ms * 1_000_000)
            drained = True
            for processor in processors:
                seconds_left = (deadline_ns - self._now()) / 1e9
                drained = processor.await_drained(max(seconds_left, 0)) and drained
        if not drained:
            logger.info("Some requests were not answered within %d ms and are dropped", drain_ms)
        return drained

    def shutdown(self) -> None:
        """Stop every thread and close every connection; a second call is harmless."""
        with self._lock:
            self._stopped = True
            self.connection_quotas.stop()
            self._close_acceptors()
            # After `stop_processing_requests` the handlers have ended: no answer comes, so the Processors need
            # not wait for one.
            processors = self._retiring + self.processors
            for processor in processors:
                processor.begin_shutdown()
            for processor in processors:
                processor.await_shutdown()
            for channel in (self.control_plane_request_channel, self.data_plane_request_channel):
                for item in channel.clear() if channel is not None else ():
                    if isinstance(item, Request):  # no handler runs
                        item.release_buffer()

    # -- under the lock

    def _open_all(self, end_points: Sequence[EndPoint]) -> list[Acceptor]:
        is_only_listener = len(self._end_points) == 1
        opened: list[Acceptor] = []
        try:
            for end_point in end_points:
                acceptor = self._factory.open(end_point, is_only_listener=is_only_listener)
                opened.append(acceptor)
        except BaseException:
            for acceptor in opened:
                self._factory.close_unused(acceptor)
            raise
        return opened

    def _start(self, acceptors: Iterable[Acceptor]) -> None:
        for acceptor in acceptors:
            if not acceptor.is_started:
                acceptor.start_processors()
                acceptor.start()
                # What is said to listen does: a connection that is made now is accepted and read.
                for thread in (*acceptor.processors, acceptor):
                    thread.await_startup()
                logger.info("Listening on %s", acceptor.end_point.connection_string)

    def _resize(self, acceptor: Acceptor, count: int) -> None:
        before = len(acceptor.processors)
        if count == before or self._stopped:
            return
        logger.info(
            "Resizing network thread pool size for %s listener from %d to %d", acceptor.listener.name, before, count
        )
        if count > before:
            acceptor.add_processors(count - before)
        else:
            self._remove_processors(acceptor, before - count)

    def _remove_processors(self, acceptor: Acceptor, count: int) -> None:
        self._retiring = [processor for processor in self._retiring if not processor.await_shutdown(0)]
        self._retiring += acceptor.remove_processors(count)

    def _follow_levels(self) -> None:
        """Let the network threads that run already log by the levels that were set just now."""
        # With the lock: a thread that is being made has read its level before or after the change, and is in the list.
        with self._lock:
            for processor in [*self.processors, *self._retiring]:
                processor.answers.follow_level()

    def _data_plane_acceptors(self) -> list[Acceptor]:
        return [acceptor for acceptor in self._acceptors if acceptor.listener.plane == DATA_PLANE]

    def _close_acceptors(self) -> None:
        for acceptor in self._acceptors:
            acceptor.begin_shutdown()
        for acceptor in self._acceptors:
            acceptor.await_shutdown()


def _memory_pool(config: NetworkConfig, clock: Clock) -> MemoryPool:
    size = config.queued_max_request_bytes
    if size <= 0:
        return NONE
    from barnabas.transport.simple_memory_pool import SimpleMemoryPool  # noqa: PLC0415 - few brokers limit their memory

    # The largest lease is that of the largest request, or of a frame just below 64 KiB, which counts eight times.
    largest = min(size, max(config.largest_request_bytes, LARGE_FRAME_BYTES * REQUEST_EXPANSION))
    return SimpleMemoryPool(
        size,
        largest,
        clock.nanoseconds,
        large_bytes=size // LARGE_FRAME_SHARE,
        request_expansion=REQUEST_EXPANSION,
    )
