"""The step from a frame to a Request: header, version check, body.

Called by the Processor on its own thread for every frame. Owns only the table it parses by, which a starting broker
replaces by one assignment (`api.gates`), and takes no lock. For bytes that are no request it raises
InvalidRequest, upon which the Processor closes that one connection. A long frame, or one of very many elements, is not
decoded here (`api.large_requests`).

Kafka: SocketServer.Processor.processCompletedReceives, RequestContext.parseRequest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.api.brief import LOGIN_FRAME_BYTES
from barnabas.api.large_requests import LargeRequests, Undecoded
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext, Handler, Request, ResponseChannel, mypyc_attr
from barnabas.api.request_log import RequestLog
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, InvalidRequest, ManyElements
from barnabas.protocol.headers import RequestHeader, parse_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from mypy_extensions import i64

_API_VERSIONS: Final = 18
"""ApiKey.API_VERSIONS as a literal, which compiled code compares without an object."""
SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def valid_software(body: ApiVersionsRequest) -> bool:
    """Return whether the client's name and version may be shown in metrics and logs (KIP-511)."""
    return bool(
        SOFTWARE_NAME.fullmatch(body.client_software_name) and SOFTWARE_NAME.fullmatch(body.client_software_version)
    )


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestParser:
    """Parses frames by the registry's table."""

    def __init__(self, registry: Registry, log: RequestLog | None = None) -> None:
        """Parse by the table of `registry`. log: the request log, which keeps each request's body while enabled."""
        self._handlers: dict[int, Handler] = registry.handlers
        self._log = RequestLog() if log is None else log
        self.large_requests = LargeRequests(self._log)

    def use_handlers(self, handlers: dict[int, Handler]) -> None:
        """Parse by another table of the same APIs from the next frame on: one assignment, from any thread."""
        self._handlers = handlers

    def parse(
        self,
        buffer: Any,
        connection: ConnectionContext,
        channel: ResponseChannel,
        received_ns: i64,
        processor_id: i64 = 0,
        release: Callable[[], None] | None = None,
    ) -> Request[Any]:
        """Make a Request of one frame (without its size prefix).

        Raises InvalidRequest naming API, version and client when the bytes are not a request this broker knows.
        """
        try:
            header, offset = parse_request_header(buffer)
        except DecodeError as error:
            raise InvalidRequest(f"unreadable request header of {len(buffer)} bytes: {error}") from error
        size = len(buffer)
        # Read once: `use_handlers` may replace the table between two frames, never within one.
        known = self._handlers.get(header.api_key)
        if known is None:
            raise InvalidRequest(f"unknown API key {header.api_key} (version {header.api_version})")
        handler = known  # of a type without None
        version = header.api_version
        body: Any
        if size > handler.brief_bytes:
            body = self._left_undecoded(handler, header, buffer, offset)
            handler = self.large_requests.leading_here(handler)
        elif not handler.min_version <= version <= handler.max_version:
            body = self._unsupported_version(handler, header)
        else:
            try:
                body = handler.decoders[version](buffer, offset)[0]
            except ManyElements:
                body = Undecoded(buffer, offset)
                handler = self.large_requests.leading_here(handler)
            except DecodeError as error:
                raise InvalidRequest(
                    f"unreadable body of {handler.api_key.name} v{version} from client {header.client_id!r}: {error}"
                ) from error
        request = Request(
            header,
            body,
            handler,
            connection,
            channel,
            received_ns,
            processor_id,
            # Never for an undecoded one, whose line is not brief.
            version >= handler.brief_from,
            # Taken above: the buffer may be given back, and used again, before the request's size is charged.
            size,
            release,
        )
        if header.api_key == _API_VERSIONS:
            self._register_software(request, version)
        if self._log.enabled and body.__class__ is not Undecoded:
            self._log.received(request)
        return request

    @staticmethod
    def _left_undecoded(handler: Handler, header: RequestHeader, buffer: Any, offset: int) -> Undecoded:
        """Return the body of a long frame.

        Raises InvalidRequest: the version is not served, or the request comes in a login, where no client has much to
        say and every other one waits.
        """
        version = header.api_version
        if handler.api_key is ApiKey.API_VERSIONS:
            raise InvalidRequest(
                f"ApiVersions of {len(buffer)} bytes from client {header.client_id!r}, "
                f"and at most {LOGIN_FRAME_BYTES} are allowed"
            )
        if not handler.min_version <= version <= handler.max_version:
            RequestParser._unsupported_version(handler, header)
        return Undecoded(buffer, offset)

    @staticmethod
    def _unsupported_version(handler: Handler, header: RequestHeader) -> ApiVersionsRequest:
        """Return the body for a version that is not served: only ApiVersions is answered then, in the layout of v0
        (KIP-35).

        Raises InvalidRequest for any other API.
        """
        if handler.api_key is not ApiKey.API_VERSIONS:
            raise InvalidRequest(
                f"unsupported version {header.api_version} of {handler.api_key.name}: "
                f"versions {handler.min_version} to {handler.max_version} are supported"
            )
        # The answer then has the layout of v0 and header v0, which every client can read.
        header.api_version = 0
        return ApiVersionsRequest()

    @staticmethod
    def _register_software(request: Request[ApiVersionsRequest], version: int) -> None:
        request.api_version = version
        if request.header.api_version >= 3 and valid_software(request.body):
            request.connection.client_software_name = request.body.client_software_name
            request.connection.client_software_version = request.body.client_software_version
