"""DescribeUserScramCredentials: v0 (KIP-554), while there are no credentials: no listener asks for any yet.

Brief. All users: an empty list. Users by name: each is told that it has none, in Kafka's words; kafka-configs asks so
whenever it describes a user, and takes that for an answer.

Kafka: KafkaApis.handleDescribeUserScramCredentialsRequest, ZkAdminManager.describeUserScramCredentials.
"""

from __future__ import annotations

from collections import Counter

from barnabas.api.authorize import CLUSTER_NAME, AclOperation, Authorizer, ResourceType, is_allowed
from barnabas.api.request import Request
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


class ScramApi:
    """Knows of no credentials."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def describe_user_scram_credentials(self, request: Request[DescribeUserScramCredentialsRequest]) -> None:
        """Answer every user named, once."""
        cluster = (ResourceType.CLUSTER, CLUSTER_NAME)
        if not is_allowed(self._authorizer, request, AclOperation.DESCRIBE, *cluster):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        named = Counter(user.name for user in request.body.users or ())
        results = [_result(name, times) for name, times in named.items()]
        request.respond(DescribeUserScramCredentialsResponse(results=results))

    @staticmethod
    def error(
        request: Request[DescribeUserScramCredentialsRequest], code: ErrorCode, message: str | None
    ) -> DescribeUserScramCredentialsResponse:
        """A top-level error, and the same for each user named."""
        results = [Result(user.name, code, message) for user in request.body.users or ()]
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=results)


def _result(name: str, times: int) -> Result:
    if not name:
        return Result(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Result(name, ErrorCode.DUPLICATE_RESOURCE, message)
    message = f"Attempt to describe a user credential that does not exist: {name}"
    return Result(name, ErrorCode.RESOURCE_NOT_FOUND, message)
