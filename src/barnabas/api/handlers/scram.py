"""DescribeUserScramCredentials: v0, and AlterUserScramCredentials: v0 (KIP-554).

Not brief: they read, and write, the store. Each user of a request is answered on its own. A client sends salted
passwords, never a password; nothing secret is ever answered. A change is in force a moment after its answer.

Kafka: KafkaApis.handleDescribeUserScramCredentialsRequest, handleAlterUserScramCredentialsRequest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.scram_credential_admin import CredentialChange, CredentialInfo, NewPassword, ScramCredentialAdmin
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.security.acl.acl_codes import AclOperation

Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


class ScramApi:
    """Shows and changes the SCRAM credentials of users."""

    def __init__(self, admin: ScramCredentialAdmin, authorizer: Authorizer | None) -> None:
        self._admin = admin
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, self.describe_user_scram_credentials),
            Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, self.alter_user_scram_credentials, error_answer=_error_answer),
        )

    def describe_user_scram_credentials(self, request: Request[DescribeUserScramCredentialsRequest]) -> None:
        """Answer every user named, once; all users if none is named.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE)
        named = Counter(user.name for user in request.body.users or ())
        if named:
            results = [self._described(name, times) for name, times in named.items()]
        else:
            results = [
                Described(user=user, error_code=ErrorCode.NONE, error_message=None, credential_infos=_infos(found))
                for user, found in self._admin.describe_all().items()
            ]
        request.respond(DescribeUserScramCredentialsResponse(results=results))

    def _described(self, name: str, times: int) -> Described:
        if name and times > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            return Described(name, ErrorCode.DUPLICATE_RESOURCE, message)
        try:
            found = self._admin.describe(name)
        except ApiError as error:
            return Described(name, error.code, error.message)
        return Described(user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=_infos(found))

    def alter_user_scram_credentials(self, request: Request[AlterUserScramCredentialsRequest]) -> None:
        """Delete and set credentials. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED."""
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        body = request.body
        changes = [CredentialChange(each.name, each.mechanism, None) for each in body.deletions]
        changes += [
            CredentialChange(
                each.name,
                each.mechanism,
                NewPassword(bytes(each.salt), bytes(each.salted_password), each.iterations),
            )
            for each in body.upsertions
        ]
        results = [
            Altered(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in self._admin.alter(changes).items()
        ]
        request.respond(AlterUserScramCredentialsResponse(results=results))


def _error_answer(
    request: Request[AlterUserScramCredentialsRequest], error: ApiError
) -> AlterUserScramCredentialsResponse:
    """Answer each user once, whether credentials of it were to be deleted, set or both."""
    body = request.body
    named = [each.name for each in body.deletions] + [each.name for each in body.upsertions]
    users = dict.fromkeys(named)
    return AlterUserScramCredentialsResponse(results=[Altered(user, error.code, error.message) for user in users])


def _infos(found: Sequence[CredentialInfo]) -> list[DescribeUserScramCredentialsResponse.CredentialInfo]:
    return [DescribeUserScramCredentialsResponse.CredentialInfo(*each) for each in found]
