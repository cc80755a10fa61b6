"""The HTTP server behind `metrics.listen`: `/metrics` for Prometheus, `/healthz` for supervisors.

Made, started and stopped by the command line, on its main thread. The thread `console` accepts connections; each
request has a daemon thread of its own. Beyond `MOST_REQUESTS` at a time, connections are closed at once; a request that
takes longer than `SLOWEST_SECONDS` is cut off. So a client can neither pile up threads in a broker nor lock out others.
The pages need no authentication: bind the server to an address that only their readers can reach.

prometheus-client, which brings the text format, is an extra and is imported when the console is made.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from barnabas.broker.foundations import BrokerState
from barnabas.config.config_error import ConfigError
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.transport.channel.transport_layer import is_connection_lost

logger = logging.getLogger(__name__)

MOST_REQUESTS: Final = 8
SLOWEST_SECONDS: Final = 10
METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/healthz"
_LONGEST_LINE: Final = 1 << 16

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ConsoleServer:
    """The server of a broker's metrics and state, at `url`."""

    def __init__(self, host: str, port: int, metrics: MetricsRegistry, state: Callable[[], BrokerState]) -> None:
        """Bind the address. Raises ConfigError without prometheus-client, OSError if the address cannot be bound."""
        application = _Application(_metrics_application(metrics), state)
        self._server = _Server((host, port), _Handler)
        self._server.set_app(application)
        bound_host, bound_port = str(self._server.server_address[0]), self._server.server_address[1]
        self.url = f"http://[{bound_host}]:{bound_port}" if ":" in bound_host else f"http://{bound_host}:{bound_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="console", daemon=True)

    def start(self) -> None:
        """Answer requests from now on."""
        self._thread.start()
        logger.info("Metrics are at %s%s, health at %s%s", self.url, METRICS_PATH, self.url, HEALTH_PATH)

    def stop(self) -> None:
        """Stop accepting requests. Idempotent, and harmless without a start."""
        # `shutdown` waits for the loop of `serve_forever`, and would wait forever if that never ran.
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _metrics_application(metrics: MetricsRegistry) -> Application:
    """Return prometheus-client's application for these metrics. Raises ConfigError if it is not installed."""
    try:
        from prometheus_client import (  # noqa: PLC0415 an extra
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            make_wsgi_app,
        )

        from barnabas.console.metrics_collector import MetricsCollector  # noqa: PLC0415 it needs the extra
    except ImportError as error:
        raise ConfigError(
            "the package prometheus-client is needed, and is not installed: pip install 'barnabas[metrics]'",
            "metrics.listen",
        ) from error
    registry = CollectorRegistry()
    registry.register(MetricsCollector(metrics))
    for of_process in (ProcessCollector, PlatformCollector, GCCollector):
        of_process(registry=registry)
    application: Application = make_wsgi_app(registry)
    return application


class _Application:
    """The WSGI application: one function for each page."""

    def __init__(self, metrics: Application, state: Callable[[], BrokerState]) -> None:
        self._metrics = metrics
        self._state = state

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS_PATH:
            return self._metrics(environ, start_response)
        if path != HEALTH_PATH:
            return _answer(start_response, "404 Not Found", {"pages": [METRICS_PATH, HEALTH_PATH]})
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", {"allowed": "GET, HEAD"})
        state = self._state()
        # Load balancers and supervisors look at the status alone: a broker that starts or stops should get no clients.
        status = "200 OK" if state is BrokerState.RUNNING else "503 Service Unavailable"
        return _answer(start_response, status, {"state": state.name})


def _answer(start_response: Callable[..., Any], status: str, content: dict[str, Any]) -> list[bytes]:
    body = json.dumps(content).encode() + b"\n"
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class _Answer(ServerHandler):
    request_handler: WSGIRequestHandler
    """The base class logs the request's line by it."""

    def log_exception(self, exc_info: Any) -> None:
        """Log a page that failed. A client that is gone, or does not read its answer, is no error of the broker."""
        error = exc_info[1]
        if isinstance(error, TimeoutError) or is_connection_lost(error):
            logger.debug("an answer was not sent: %s", error)
        else:
            logger.error("a page could not be made", exc_info=exc_info)


class _Handler(WSGIRequestHandler):
    timeout = SLOWEST_SECONDS

    def handle(self) -> None:
        """Answer one request, as WSGIRequestHandler does; its own way prints a traceback for each lost connection."""
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            # The base classes' types are narrower than what these attributes are.
            handler: Any = self
            answer = _Answer(handler.rfile, handler.wfile, self.get_stderr(), self.get_environ(), multithread=False)
            answer.request_handler = self
            answer.run(handler.server.get_app())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 its name there
        """Log at level debug only, because scrapes come every few seconds."""
        logger.debug("%s: %s", self.client_address[0], format % args)


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    # A scrape that hangs must not keep the broker's process from ending.
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        host = address[0]
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        # Guards `_begun`: the connections, with the times at which their requests began.
        self._lock = threading.Lock()
        self._begun: dict[socket.socket, float] = {}
        # An empty host means all addresses. A socket for IPv6 takes IPv4 too, once `server_bind` has said so.
        if ":" in host or (not host and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without the look-up of this machine's name that HTTPServer makes: a name server may be slow."""
        if self.address_family == socket.AF_INET6 and not self.server_address[0]:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread of its own, or close the connection when there are too many."""
        # A request that had to wait for room would hold up the accepting thread, and with it the health checks.
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            self._begun[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread could be started, so none will free this request's place.
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the request, on its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def service_actions(self) -> None:
        """Cut off slow requests, twice a second. A socket's timeout would start again with every byte."""
        too_early = time.monotonic() - SLOWEST_SECONDS
        with self._lock:
            slow = [request for request, begun in self._begun.items() if begun < too_early]
        for request in slow:
            # The socket is shut down outside the lock, so the request may have ended since.
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            del self._begun[request]
        self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log at level debug only, because a peer that is gone or slow is no error of the broker."""
        logger.debug("the request of %s was not answered: %s", client_address, sys.exception())
