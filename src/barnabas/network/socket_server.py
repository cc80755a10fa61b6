"""The network layer's front: listeners, their threads, and the queue they share.

Built, started and stopped by `broker/`, on its thread; a lock keeps resizing and stopping apart. Kafka: SocketServer.

    server = SocketServer(config, end_points, parse, handle, clock, on_fatal)
    bound = server.bind()                    # ports are known, clients may connect, nothing is read yet
    server.enable_request_processing()       # the broker is ready
    server.stop_processing_requests()        # no new requests; those taken are answered
    server.shutdown()                        # connections and threads are gone
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.api.request import Request
from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.network.acceptor import Acceptor, open_server_socket
from barnabas.network.connection_quotas import ConnectionLimits, ConnectionQuotas
from barnabas.network.network_config import NetworkConfig
from barnabas.network.processor import Processor
from barnabas.network.request_channel import RequestChannel
from barnabas.network.request_path import Parse, RequestPath
from barnabas.network.server_thread import FatalHandler
from barnabas.runtime.clock import Clock
from barnabas.transport.selector import ChannelBuilder, Selector, plaintext_channel

logger = logging.getLogger(__name__)

CHANNEL_BUILDERS: dict[str, ChannelBuilder] = {"PLAINTEXT": plaintext_channel}
"""By security protocol. A listener of any other is refused rather than served in the clear."""

DRAIN_MS = 1_000
"""How long a stop waits for requests that were taken; a Fetch that long-polls may take longer, and is cut off."""


class SocketServer:
    """All listeners of the data plane."""

    def __init__(
        self,
        config: NetworkConfig,
        end_points: Sequence[EndPoint],
        parse: Parse,
        handle: Callable[[Request[Any]], None],
        clock: Clock,
        on_fatal: FatalHandler,
        *,
        on_complete: Callable[[Request[Any]], None] | None = None,
    ) -> None:
        """See RequestPath for `parse`, `handle` and `on_complete`; `on_fatal` stops the broker."""
        for end_point in end_points:
            if end_point.security_protocol not in CHANNEL_BUILDERS:
                raise ConfigError(
                    f"listeners: {end_point.connection_string} needs {end_point.security_protocol}, but there is only "
                    f"{', '.join(CHANNEL_BUILDERS)}",
                    "listeners",
                )
        names = [end_point.listener_name for end_point in end_points]
        if config.inter_broker_listener is not None and config.inter_broker_listener not in names:
            raise ValueError(f"There is no listener {config.inter_broker_listener} for the brokers among {names}")
        self._config = config
        # The brokers' own listener comes first, so that the cluster works before clients press in.
        self._end_points = sorted(end_points, key=lambda end: end.listener_name != config.inter_broker_listener)
        self._clock = clock
        self._on_fatal = on_fatal
        self.request_channel = RequestChannel(config.queued_max_requests)
        self._path = RequestPath(
            self.request_channel, parse, handle, inline=config.inline_requests, on_complete=on_complete
        )
        self.connection_quotas = ConnectionQuotas(_limits(config))
        self._processor_ids = itertools.count()
        self._acceptors: list[Acceptor] = []
        self._processing = False
        self._stopped = False
        self._lock = threading.RLock()

    def bind(self) -> list[EndPoint]:
        """Open every listener and return them with the ports bound. Raises OSError, with none left open."""
        with self._lock:
            try:
                for end_point in self._end_points:
                    self._acceptors.append(self._open(end_point))
            except OSError:
                self._close_acceptors()
                raise
        return [acceptor.end_point for acceptor in self._acceptors]

    def enable_request_processing(self) -> None:
        """Start accepting and reading, the brokers' listener first; a second call is harmless."""
        with self._lock:
            if self._processing or self._stopped:
                return
            self._processing = True
            for acceptor in self._acceptors:
                acceptor.start_processors()
                acceptor.start()
                logger.info("Listening on %s", acceptor.end_point.connection_string)

    def bound_port(self, listener_name: str) -> int:
        """The port of a listener. Raises KeyError for an unknown one."""
        for acceptor in self._acceptors:
            if acceptor.end_point.listener_name == listener_name:
                return acceptor.end_point.port
        raise KeyError(listener_name)

    @property
    def processors(self) -> list[Processor]:
        """The network threads of all listeners, for their metrics."""
        return [processor for acceptor in self._acceptors for processor in acceptor.processors]

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return self.connection_quotas.total

    def resize_network_threads(self, count: int) -> None:
        """Have `count` network threads per listener; connections of those removed are closed."""
        if count < 1:
            raise ValueError(f"A listener needs at least one network thread, not {count}")
        with self._lock:
            for acceptor in self._acceptors:
                before = len(acceptor.processors)
                if count > before:
                    acceptor.add_processors(count - before)
                elif count < before:
                    for processor in acceptor.remove_processors(before - count):
                        self.request_channel.remove_processor(processor.processor_id)

    def stop_processing_requests(self, drain_ms: float = DRAIN_MS) -> bool:
        """Stop accepting and reading; wait at most `drain_ms` until every request taken is answered.

        The handler pool must still run. False if some requests were not answered in time.
        """
        with self._lock:
            was_processing, self._stopped = self._processing, True
            self.connection_quotas.stop()
            self._close_acceptors()
            if not was_processing:
                return True
            processors = self.processors
            for processor in processors:
                processor.begin_drain()
            deadline_ns = self._clock.nanoseconds() + int(drain_ms * 1_000_000)
            drained = True
            for processor in processors:
                seconds_left = (deadline_ns - self._clock.nanoseconds()) / 1e9
                drained = processor.await_drained(max(seconds_left, 0)) and drained
        if not drained:
            logger.info("Some requests were not answered within %d ms and are given up", drain_ms)
        return drained

    def shutdown(self) -> None:
        """Stop every thread and close every connection; a second call is harmless."""
        with self._lock:
            self._stopped = True
            self.connection_quotas.stop()
            self._close_acceptors()
            processors = self.processors
            for processor in processors:
                processor.begin_shutdown()
            for processor in processors:
                processor.await_shutdown()
                self.request_channel.remove_processor(processor.processor_id)

    def _open(self, end_point: EndPoint) -> Acceptor:
        server_socket = open_server_socket(end_point, self._config)
        bound = end_point.with_port(server_socket.getsockname()[1])
        acceptor = Acceptor(
            bound,
            server_socket,
            self._config,
            self.connection_quotas,
            self._new_processor,
            self._clock,
            self._on_fatal,
        )
        acceptor.add_processors(self._config.network_threads)
        return acceptor

    def _new_processor(self, end_point: EndPoint) -> Processor:
        number = next(self._processor_ids)  # unique across listeners: one map is keyed by it
        listener = f"ListenerName({end_point.listener_name})-{end_point.security_protocol}"
        processor = Processor(
            number,
            f"data-plane-kafka-network-thread-{self._config.broker_id}-{listener}-{number}",
            (end_point.listener_name, end_point.security_protocol),
            Selector(
                self._clock,
                max_receive_bytes=self._config.request_max_bytes,
                max_idle_ms=self._config.max_idle_ms,
                channel_builder=CHANNEL_BUILDERS[end_point.security_protocol],
            ),
            self._path,
            self.connection_quotas,
            self._clock,
            self._on_fatal,
        )
        self.request_channel.add_processor(processor)
        return processor

    def _close_acceptors(self) -> None:
        for acceptor in self._acceptors:
            acceptor.begin_shutdown()
        for acceptor in self._acceptors:
            acceptor.await_shutdown()


def _limits(config: NetworkConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_connections=config.max_connections,
        per_ip=config.max_connections_per_ip,
        per_ip_overrides=config.max_connections_per_ip_overrides,
        protected_listener=config.inter_broker_listener,
    )
