"""The request handlers of both planes: made, started, and stopped together.

Built by BrokerServer on the main thread once the SocketServer exists. The data plane has `num.io.threads` of them, the
control plane one. Kafka: dataPlaneRequestHandlerPool and controlPlaneRequestHandlerPool of KafkaServer.
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
    """`control_plane` is None unless a listener is the controller's own."""

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
        """Have what is queued handled, and end the threads."""
        self.data_plane.shutdown()
        if self.control_plane is not None:
            self.control_plane.shutdown()
