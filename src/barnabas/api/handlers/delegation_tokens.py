"""CreateDelegationToken: v0-3 (KIP-48). RenewDelegationToken: v0-2. ExpireDelegationToken: v0-2.
DescribeDelegationToken: v0-3.

Not brief: they write the store, and make credentials of a new token. v2: flexible. v3: tokens for other owners
(KIP-373).

A client that has proved its identity by a password or a certificate may ask; one that used a token may not, so that a
stolen token cannot prolong itself.

Kafka: KafkaApis.handleCreateTokenRequest and its kin, DelegationTokenManager.filterToken.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from barnabas.api.authorize import Authorizer, is_allowed
from barnabas.api.request import Handler, Request
from barnabas.metadata.delegation_token_manager import DelegationTokenManager
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.security.delegation_token import DelegationToken, TokenInformation
from barnabas.security.principal import USER, Principal
from barnabas.transport.channel.authenticator import ANONYMOUS

NO_TIMESTAMP: Final = -1
"""The time stamps of an answer with an error."""
_REQUESTER_SINCE: Final = 3
"""The first version whose answers name the requester of a token."""

_Described = DescribeDelegationTokenResponse.DescribedDelegationToken
_Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


class DelegationTokensApi:
    """Creates, renews, expires and describes tokens. manager: None without `delegation.token.secret.key`."""

    def __init__(self, manager: DelegationTokenManager | None, authorizer: Authorizer | None) -> None:
        self._manager = manager
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.CREATE_DELEGATION_TOKEN, self.create_delegation_token),
            Handler(ApiKey.RENEW_DELEGATION_TOKEN, self.renew_delegation_token),
            Handler(ApiKey.EXPIRE_DELEGATION_TOKEN, self.expire_delegation_token),
            Handler(ApiKey.DESCRIBE_DELEGATION_TOKEN, self.describe_delegation_token),
        )

    def create_delegation_token(self, request: Request[CreateDelegationTokenRequest]) -> None:
        """Create a token for the client, or for another owner if it may. Errors are in the answer, with both names."""
        body = request.body
        requester = request.connection.principal
        owner = (
            str(Principal(body.owner_principal_type or "", body.owner_principal_name))
            if body.owner_principal_name
            else requester
        )
        try:
            token = self._created(request, owner, requester)
        except ApiError as error:
            request.respond(_creation_answer(request, owner, error.code))
            return
        request.respond(_creation_answer(request, owner, ErrorCode.NONE, token))

    def _created(self, request: Request[CreateDelegationTokenRequest], owner: str, requester: str) -> DelegationToken:
        _require_identity(request)
        if owner != requester and not is_allowed(
            self._authorizer, request, AclOperation.CREATE_TOKENS, ResourceType.USER, owner
        ):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        body = request.body
        if any(renewer.principal_type != USER for renewer in body.renewers):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        renewers = [str(Principal(each.principal_type, each.principal_name)) for each in body.renewers]
        return self._enabled().create(owner, requester, renewers, body.max_lifetime_ms)

    def renew_delegation_token(self, request: Request[RenewDelegationTokenRequest]) -> None:
        """Prolong a token, which its HMAC names. Errors are in the answer."""
        body = request.body
        try:
            _require_identity(request)
            expiry_ms = self._enabled().renew(request.connection.principal, body.hmac, body.renew_period_ms)
        except ApiError as error:
            request.respond(RenewDelegationTokenResponse(error.code, NO_TIMESTAMP))
            return
        request.respond(RenewDelegationTokenResponse(ErrorCode.NONE, expiry_ms))

    def expire_delegation_token(self, request: Request[ExpireDelegationTokenRequest]) -> None:
        """End a token, at once or later. Errors are in the answer."""
        body = request.body
        try:
            _require_identity(request)
            expiry_ms = self._enabled().expire(request.connection.principal, body.hmac, body.expiry_time_period_ms)
        except ApiError as error:
            request.respond(ExpireDelegationTokenResponse(error.code, NO_TIMESTAMP))
            return
        request.respond(ExpireDelegationTokenResponse(ErrorCode.NONE, expiry_ms))

    def describe_delegation_token(self, request: Request[DescribeDelegationTokenRequest]) -> None:
        """Describe the tokens that the client may see, of all owners or of those named (an empty list: none).

        Raises ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
        """
        _require_identity(request)
        manager = self._enabled()
        wanted = request.body.owners
        owners = (
            None if wanted is None else {str(Principal(each.principal_type, each.principal_name)) for each in wanted}
        )
        tokens = [] if owners == set() else manager.tokens(lambda token: self._is_visible(request, token, owners))
        request.respond(
            DescribeDelegationTokenResponse(
                ErrorCode.NONE, [_described(token, request.header.api_version) for token in tokens]
            )
        )

    def _is_visible(self, request: Request[Any], token: TokenInformation, owners: AbstractSet[str] | None) -> bool:
        if owners is not None and not token.belongs_to(owners):
            return False
        return (
            token.belongs_to({request.connection.principal})
            or is_allowed(
                self._authorizer, request, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id
            )
            or is_allowed(self._authorizer, request, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )

    def _enabled(self) -> DelegationTokenManager:
        if self._manager is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._manager


def _require_identity(request: Request[Any]) -> None:
    """Check that the client has proved its identity otherwise than by a token.

    Raises ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Kafka: allowTokenRequests.
    """
    connection = request.connection
    is_nobody = connection.security_protocol == "PLAINTEXT" or (
        connection.security_protocol == "SSL" and connection.principal == ANONYMOUS
    )
    if connection.authenticated_by_token or is_nobody:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _creation_answer(
    request: Request[Any], owner: str, code: ErrorCode, token: DelegationToken | None = None
) -> CreateDelegationTokenResponse:
    owning = Principal.parse(owner)
    answer = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owning.type,
        principal_name=owning.name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if request.header.api_version >= _REQUESTER_SINCE:
        requesting = Principal.parse(request.connection.principal)
        answer.token_requester_principal_type = requesting.type
        answer.token_requester_principal_name = requesting.name
    if token is not None:
        information = token.information
        answer.issue_timestamp_ms = information.issue_timestamp_ms
        answer.expiry_timestamp_ms = information.expiry_timestamp_ms
        answer.max_timestamp_ms = information.max_timestamp_ms
        answer.token_id, answer.hmac = information.token_id, token.hmac
    return answer


def _described(token: DelegationToken, version: int) -> _Described:
    information = token.information
    owning = Principal.parse(information.owner)
    description = _Described(
        principal_type=owning.type,
        principal_name=owning.name,
        issue_timestamp=information.issue_timestamp_ms,
        expiry_timestamp=information.expiry_timestamp_ms,
        max_timestamp=information.max_timestamp_ms,
        token_id=information.token_id,
        hmac=token.hmac,
        renewers=[_Renewer(*Principal.parse(renewer)) for renewer in information.renewers],
    )
    if version >= _REQUESTER_SINCE:
        requesting = Principal.parse(information.requester)
        description.token_requester_principal_type = requesting.type
        description.token_requester_principal_name = requesting.name
    return description
