"""ApiVersions: v0-4 (KIP-35, KIP-511): the APIs and versions that this broker serves.

Brief; runs on the Processor's thread or a handler's.

v3: flexible body, client software name.
v4: supported features with a zero minimum version, which older clients cannot read (KAFKA-17011).

Kafka: KafkaApis.handleApiVersionsRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.api.brief import BRIEF
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import valid_software
from barnabas.metadata.cluster_features import ClusterFeatures
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

LEVEL_ZERO_SINCE: Final = 4


class ApiVersionsApi:
    """Lists the table of APIs, and the features. registry: a callable, because the table also lists this handler."""

    def __init__(self, registry: Callable[[], Registry], features: ClusterFeatures) -> None:
        self._registry = registry
        self._features = features

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.API_VERSIONS, self.api_versions, error_answer=_error_answer, brief=BRIEF),)

    def api_versions(self, request: Request[ApiVersionsRequest]) -> None:
        """Answer with the whole table.

        Raises ApiError: UNSUPPORTED_VERSION when the version is unknown, which is answered in the layout of v0;
        INVALID_REQUEST when the client's software name or version is malformed.
        """
        handler = request.handler
        if not handler.min_version <= request.api_version <= handler.max_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        request.respond(self._answer(request.body, request.api_version))

    def before_login(self, request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:
        """Return the answer to a client that has not logged in yet: the same one, errors included.

        None: the request's version is unknown, and the answer has the layout of v0.
        """
        if request is None:
            return _error_response(ErrorCode.UNSUPPORTED_VERSION, self._registry().handlers[ApiKey.API_VERSIONS])
        try:
            return self._answer(request, version)
        except ApiError as error:
            return ApiVersionsResponse(error_code=error.code, api_keys=[])

    def _answer(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Return the table of APIs. Raises ApiError: INVALID_REQUEST."""
        # Name and version end up in metrics and logs, so they are checked although nothing depends on them (KIP-511).
        if version >= 3 and not valid_software(request):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=self._supported())
        self._add_features(response, version)
        return response

    def _add_features(self, response: ApiVersionsResponse, version: int) -> None:
        """Name the features: nothing where the broker has none, as before there were any."""
        supported = self._features.supported
        if not supported:
            return
        in_force = self._features.in_force
        response.supported_features = [
            ApiVersionsResponse.SupportedFeatureKey(name, *levels)
            for name, levels in supported.items()
            if version >= LEVEL_ZERO_SINCE or levels.lowest > 0
        ]
        response.finalized_features_epoch = in_force.epoch
        response.finalized_features = [
            ApiVersionsResponse.FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name, level in in_force.levels.items()
        ]

    def _supported(self) -> list[ApiVersionsResponse.ApiVersion]:
        return [
            ApiVersionsResponse.ApiVersion(api_key=handler.api_key, min_version=lowest, max_version=highest)
            for handler in self._registry()
            if handler.listed is not None
            for lowest, highest in (handler.listed,)
        ]


def _error_answer(request: Request[ApiVersionsRequest], error: ApiError) -> ApiVersionsResponse:
    return _error_response(error.code, request.handler)


def _error_response(code: ErrorCode, handler: Handler) -> ApiVersionsResponse:
    """Name, with UNSUPPORTED_VERSION, the versions of ApiVersions itself: the client asks again (KIP-511)."""
    own = ApiVersionsResponse.ApiVersion(
        api_key=handler.api_key, min_version=handler.min_version, max_version=handler.max_version
    )
    # Clients read the highest version they may use from the one entry; other errors come without any.
    is_unsupported = code is ErrorCode.UNSUPPORTED_VERSION
    return ApiVersionsResponse(error_code=code, api_keys=[own] if is_unsupported else [])
