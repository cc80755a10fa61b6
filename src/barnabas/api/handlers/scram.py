"""DescribeUserScramCredentials: v0 (KIP-554), while there are no credentials: no listener asks for any yet.

Brief. For all users the answer is an empty list. A user named gets an error that it has none, in Kafka's words;
kafka-configs asks whenever it describes a user, and takes that for an answer.

Kafka: KafkaApis.handleDescribeUserScramCredentialsRequest, ZkAdminManager.describeUserScramCredentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed
from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


class ScramApi:
    """Describes credentials, of which there are none."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, self.describe_user_scram_credentials, brief=BRIEF),)

    def describe_user_scram_credentials(self, request: Request[DescribeUserScramCredentialsRequest]) -> None:
        """Answer every user named, once. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED."""
        cluster = (ResourceType.CLUSTER, CLUSTER_NAME)
        if not is_allowed(self._authorizer, request, AclOperation.DESCRIBE, *cluster):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        named = Counter(user.name for user in request.body.users or ())
        results = [_result(name, times) for name, times in named.items()]
        request.respond(DescribeUserScramCredentialsResponse(results=results))


def _result(name: str, times: int) -> Result:
    # Errors and texts of ZkAdminManager, in its order.
    if not name:
        return Result(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Result(name, ErrorCode.DUPLICATE_RESOURCE, message)
    message = f"Attempt to describe a user credential that does not exist: {name}"
    return Result(name, ErrorCode.RESOURCE_NOT_FOUND, message)
