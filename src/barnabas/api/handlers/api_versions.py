"""ApiVersions: v0-4 (KIP-35, KIP-511): which APIs and versions this broker speaks.

Brief; runs on the Processor's thread or a handler's.
v3: flexible body, client software name. v4: supported features with a zero minimum version.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.api.registry import Registry
from barnabas.api.request import Request
from barnabas.api.request_parser import valid_software
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class ApiVersionsApi:
    """registry: a callable, because the table also lists this handler."""

    def __init__(self, registry: Callable[[], Registry]) -> None:
        self._registry = registry

    def api_versions(self, request: Request[ApiVersionsRequest]) -> None:
        """The whole table; in an unknown version error 35 with ApiVersions' own range, in the layout of v0."""
        if not request.handler.min_version <= request.api_version <= request.handler.max_version:
            request.respond(self.error(request, ErrorCode.UNSUPPORTED_VERSION, None))
        elif request.api_version >= 3 and not valid_software(request.body):
            request.respond(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        else:
            request.respond(ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=self._supported()))

    @staticmethod
    def error(request: Request[ApiVersionsRequest], code: ErrorCode, message: str | None) -> ApiVersionsResponse:
        """UNSUPPORTED_VERSION names the versions of ApiVersions itself, so that the client can ask again (KIP-511)."""
        own = ApiVersionsResponse.ApiVersion(
            api_key=request.handler.api_key,
            min_version=request.handler.min_version,
            max_version=request.handler.max_version,
        )
        return ApiVersionsResponse(error_code=code, api_keys=[own] if code is ErrorCode.UNSUPPORTED_VERSION else [])

    def _supported(self) -> list[ApiVersionsResponse.ApiVersion]:
        return [
            ApiVersionsResponse.ApiVersion(api_key=handler.api_key, min_version=lowest, max_version=highest)
            for handler in self._registry()
            if handler.listed is not None
            for lowest, highest in (handler.listed,)
        ]
