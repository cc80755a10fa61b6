"""Opens the listeners of a SocketServer: server socket, Acceptor, and Processors with the Selectors they own.

Made by the SocketServer and called under its lock, except `new_processor`: of what it reads only `config` changes, by
one assignment. Kafka: SocketServer (createDataPlaneAcceptorAndProcessors), DataPlaneAcceptor and
ControlPlaneAcceptor.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from barnabas.config.listeners import EndPoint
from barnabas.network.acceptor import Acceptor, open_server_socket
from barnabas.network.connections.channel_builders import CONTROL_PLANE, DATA_PLANE, ChannelBuilders, ServedListener
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.network.network_config import NetworkConfig
from barnabas.network.processor import Processor
from barnabas.network.requests.request_channel import RequestChannel, RequestHandling, RequestPath
from barnabas.network.server_thread import FatalHandler
from barnabas.runtime.clock import Clock
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import NONE, MemoryPool
from barnabas.transport.selector import Selector

CONTROL_PLANE_QUEUE_SIZE: Final = 20
CONTROL_PLANE_PROCESSORS: Final = 1


class Planes:
    """The paths of requests: one for the data plane, and one for the control plane if it has a listener."""

    __slots__ = ("control", "data")

    def __init__(self, config: NetworkConfig, handling: RequestHandling) -> None:
        self.data = RequestPath(
            RequestChannel(config.queued_max_requests), handling, may_run_at_once=config.inline_requests
        )
        self.control: RequestPath | None = None
        if config.control_plane_listener is not None:
            # One thread handles all requests of this plane, in their order; none runs at once on the network thread.
            channel = RequestChannel(CONTROL_PLANE_QUEUE_SIZE, "ControlPlane")
            self.control = RequestPath(channel, handling, may_run_at_once=False)

    def path_of(self, listener: ServedListener) -> RequestPath:
        """Return the path of requests that come in by `listener`."""
        return self.control if self.control is not None and listener.plane == CONTROL_PLANE else self.data


class ListenerFactory:
    """The maker of listeners and their threads, by the current settings."""

    __slots__ = (
        "_buffers",
        "_channel_builders",
        "_clock",
        "_memory_pool",
        "_on_fatal",
        "_planes",
        "_processor_ids",
        "_quotas",
        "config",
    )

    def __init__(
        self,
        config: NetworkConfig,
        planes: Planes,
        quotas: ConnectionQuotas,
        memory_pool: MemoryPool,
        channel_builders: ChannelBuilders,
        clock: Clock,
        on_fatal: FatalHandler,
    ) -> None:
        self.config = config
        self._planes = planes
        self._quotas = quotas
        self._memory_pool = memory_pool
        # Idle receive buffers must fit into what the pool has left, so the Selectors that share the pool share them.
        self._buffers = None if memory_pool is NONE else FrameBufferPool()
        self._channel_builders = channel_builders
        self._clock = clock
        self._on_fatal = on_fatal
        self._processor_ids = itertools.count()  # unique across listeners: the RequestChannel's map is keyed by it

    def check_security(self, end_points: Sequence[EndPoint]) -> None:
        """Check the security of listeners. Raises ConfigError: a protocol or its settings cannot be used."""
        for end_point in end_points:
            self._channel_builders.check(end_point)

    def open(self, end_point: EndPoint, *, is_only_listener: bool) -> Acceptor:
        """Bind an end point and make its threads, which are not started. Raises OSError when binding fails."""
        config = self.config
        name = end_point.listener_name
        is_control_plane = name == config.control_plane_listener
        privileged = config.control_plane_listener or config.inter_broker_listener
        listener = ServedListener(
            name,
            end_point.security_protocol,
            name == privileged or (privileged is None and is_only_listener),
            CONTROL_PLANE if is_control_plane else DATA_PLANE,
        )
        own = config.for_listener(name)
        # Bound first: port 0 becomes a number here, and the names of the threads contain it.
        server_socket = open_server_socket(end_point, own)
        bound = end_point.with_port(server_socket.getsockname()[1])
        self._quotas.add_listener(name, own)  # before its acceptor exists
        acceptor = Acceptor(
            bound, listener, server_socket, own, self._quotas, self.new_processor, self._clock, self._on_fatal
        )
        try:
            acceptor.add_processors(CONTROL_PLANE_PROCESSORS if is_control_plane else own.network_threads)
        except BaseException:
            self.close_unused(acceptor)
            raise
        return acceptor

    def close_unused(self, acceptor: Acceptor) -> None:
        """Close a listener whose threads were never started."""
        acceptor.begin_shutdown()
        acceptor.await_shutdown()
        acceptor.remove_processors(len(acceptor.processors))
        self._quotas.remove_listener(acceptor.listener.name)

    def new_processor(self, listener: ServedListener) -> Processor:
        """Make a network thread of `listener`, and register it with its plane's RequestChannel."""
        number = next(self._processor_ids)
        config = self.config
        own = config.for_listener(listener.name)
        path = self._planes.path_of(listener)
        # Clients that use up the memory of the data plane must not hold up the controller's requests.
        is_limited = path is self._planes.data
        processor = Processor(
            number,
            f"{listener.plane}-kafka-network-thread-{config.broker_id}-{listener}-{number}",
            listener,
            Selector(
                self._clock,
                max_receive_bytes=own.request_max_bytes,
                max_idle_ms=own.max_idle_ms,
                channel_builder=self._channel_builders.builder_of(listener.name, listener.security_protocol),
                pool=self._buffers if is_limited else None,
                memory_pool=self._memory_pool if is_limited else NONE,
                failed_authentication_delay_ms=config.failed_authentication_delay_ms,
            ),
            path,
            self._quotas,
            self._clock,
            self._on_fatal,
        )
        path.channel.add_processor(processor)
        return processor
