"""FindCoordinator: v0-6.

Brief. v1: key type (KIP-98). v3: flexible. v4: several keys (KIP-699). v6: share groups (KIP-932). There are no
coordinators yet, so every key that may be asked for is answered with COORDINATOR_NOT_AVAILABLE, which clients retry;
the API is advertised all the same because librdkafka enables lz4 only where it is.

Kafka: KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from typing import Final

from barnabas.api.authorize import CLUSTER_NAME, AclOperation, Authorizer, ResourceType, is_allowed
from barnabas.api.request import Request
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

NO_NODE: Final = -1
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Types of keys (Kafka: CoordinatorType)."""
SHARE_SINCE: Final = 6


class FindCoordinatorApi:
    """Which broker coordinates a group or a transactional id."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def find_coordinator(self, request: Request[FindCoordinatorRequest]) -> None:
        """No coordinator is available to those who may ask for it."""
        body = request.body
        if request.api_version < 4:
            code = self._error_of(request, body.key)
            request.respond(self.error(request, code, code.message))
            return
        codes = [(key, self._error_of(request, key)) for key in body.coordinator_keys]
        request.respond(
            FindCoordinatorResponse(coordinators=[_no_coordinator(key, code, code.message) for key, code in codes])
        )

    def _error_of(self, request: Request[FindCoordinatorRequest], key: str) -> ErrorCode:
        kind = request.body.key_type
        describe = AclOperation.DESCRIBE
        if kind == GROUP and not is_allowed(self._authorizer, request, describe, ResourceType.GROUP, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if kind == TRANSACTION and not is_allowed(
            self._authorizer, request, describe, ResourceType.TRANSACTIONAL_ID, key
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if kind == SHARE:
            if request.api_version < SHARE_SINCE:
                return ErrorCode.INVALID_REQUEST
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            if not is_allowed(self._authorizer, request, *cluster):
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    @staticmethod
    def error(
        request: Request[FindCoordinatorRequest], code: ErrorCode, message: str | None
    ) -> FindCoordinatorResponse:
        """The same error for every key."""
        if request.api_version < 4:
            return FindCoordinatorResponse(
                error_code=code, error_message=message, node_id=NO_NODE, host="", port=NO_NODE
            )
        return FindCoordinatorResponse(
            coordinators=[_no_coordinator(key, code, message) for key in request.body.coordinator_keys]
        )


def _no_coordinator(key: str, code: ErrorCode, message: str | None) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message
    )
