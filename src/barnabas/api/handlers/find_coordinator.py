"""FindCoordinator: v0-6.

Brief. v1: key type (KIP-98). v3: flexible. v4: several keys (KIP-699). There are no coordinators yet, so every key is
answered with COORDINATOR_NOT_AVAILABLE, which clients retry; the API is advertised all the same because librdkafka
enables lz4 only where it is.

Kafka: KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from barnabas.api.request import Request
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

NO_NODE = -1


class FindCoordinatorApi:
    """Which broker coordinates a group or a transactional id."""

    def find_coordinator(self, request: Request[FindCoordinatorRequest]) -> None:
        """No coordinator is available."""
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        request.respond(self.error(request, code, code.message))

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
            coordinators=[
                FindCoordinatorResponse.Coordinator(
                    key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message
                )
                for key in request.body.coordinator_keys
            ]
        )
