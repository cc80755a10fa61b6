"""The request handlers of both planes: made, started, and stopped together.

Made by `front_stage` on the main thread, when the SocketServer exists. The data plane has `num.io.threads` handlers,
the control plane one. Kafka: KafkaServer.dataPlaneRequestHandlerPool, controlPlaneRequestHandlerPool.
"""

from __future__ import annotations

from typing import Final

from barnabas.api.apis import Apis
from barnabas.api.control_plane import ControlPlaneApis
from barnabas.api.registry import Registry
from barnabas.network.request_handler_pool import RequestHandlerPool
from barnabas.network.served_listener import CONTROL_PLANE
from barnabas.network.server_thread import FatalHandler
from barnabas.network.socket_server import SocketServer
from barnabas.runtime.clock import Clock

CONTROL_PLANE_HANDLERS: Final = 1


class HandlerPools:
    """The pools. `control_plane` is None unless the controller has a listener of its own."""

    def __init__(
        self,
        sockets: SocketServer,
        apis: Apis,
        registry: Registry,
        clock: Clock,
        count: int,
        on_fatal: FatalHandler,
    ) -> None:
        self.data_plane = RequestHandlerPool(sockets.data_plane_request_channel, apis.handle, clock, count, on_fatal)
        self.control_plane: RequestHandlerPool | None = None
        if sockets.control_plane_request_channel is not None:
            self.control_plane = RequestHandlerPool(
                sockets.control_plane_request_channel,
                ControlPlaneApis(registry, apis.handle).handle,
                clock,
                CONTROL_PLANE_HANDLERS,
                on_fatal,
                prefix=CONTROL_PLANE,
            )

    def start(self) -> None:
        """Start the threads, the control plane's first."""
        if self.control_plane is not None:
            self.control_plane.start()
        self.data_plane.start()

    def shutdown(self) -> None:
        """Let the threads handle the queued requests, and end them."""
        self.data_plane.shutdown()
        if self.control_plane is not None:
            self.control_plane.shutdown()
