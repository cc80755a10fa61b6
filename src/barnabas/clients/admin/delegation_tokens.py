"""Delegation tokens as an administrator sees them (KIP-48): creates, renews, expires and describes them.

Part of `Admin`. Brokers take these requests from clients that have proved their identity by a password or a
certificate, and not by a token. Kafka: KafkaAdminClient.createDelegationToken and its kin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import raise_error
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
from barnabas.security.delegation_token import DelegationToken, TokenInformation
from barnabas.security.principal import Principal


class AdminDelegationTokens(AdminPart):
    """The methods of `Admin` about delegation tokens."""

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a token by which programs log in as `owner` (`User:alice`), this client's principal if not given.

        max_lifetime_ms: -1 for the broker's limit. Raises ApiError, and ValueError for a malformed principal.
        """
        creatable = CreateDelegationTokenRequest.CreatableRenewers
        names = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[creatable(*Principal.parse(each)) for each in names], max_lifetime_ms=max_lifetime_ms
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = Principal.parse(owner)
        answer = self._calls.ask(request, CreateDelegationTokenResponse)
        raise_error(answer.error_code, None, "The token was not created")
        owning = Principal(answer.principal_type, answer.principal_name)
        # Brokers before Kafka 3.3 name no requester: it is the owner.
        requesting = Principal(answer.token_requester_principal_type, answer.token_requester_principal_name)
        return DelegationToken(
            TokenInformation(
                token_id=answer.token_id,
                owner=str(owning),
                requester=str(requesting if requesting.name else owning),
                renewers=names,
                issue_timestamp_ms=answer.issue_timestamp_ms,
                max_timestamp_ms=answer.max_timestamp_ms,
                expiry_timestamp_ms=answer.expiry_timestamp_ms,
            ),
            bytes(answer.hmac),
        )

    def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Prolong a token, by the broker's period if not given. Return its expiry timestamp (ms). Raises ApiError."""
        answer = self._calls.ask(RenewDelegationTokenRequest(hmac, period_ms), RenewDelegationTokenResponse)
        raise_error(answer.error_code, None, "The token was not renewed")
        return answer.expiry_timestamp_ms

    def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """End a token after a period, at once if it is negative. Return its expiry timestamp (ms). Raises ApiError."""
        answer = self._calls.ask(ExpireDelegationTokenRequest(hmac, period_ms), ExpireDelegationTokenResponse)
        raise_error(answer.error_code, None, "The token was not expired")
        return answer.expiry_timestamp_ms

    def describe_delegation_tokens(self, owners: Collection[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of these principals, or all that this client may see. Raises ApiError, ValueError."""
        named = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
        wanted = None if owners is None else [named(*Principal.parse(owner)) for owner in owners]
        answer = self._calls.ask(DescribeDelegationTokenRequest(wanted), DescribeDelegationTokenResponse)
        raise_error(answer.error_code, None, "Tokens are not known")
        return [_token(each) for each in answer.tokens]


def _token(described: DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    owning = Principal(described.principal_type, described.principal_name)
    requesting = Principal(described.token_requester_principal_type, described.token_requester_principal_name)
    information = TokenInformation(
        token_id=described.token_id,
        owner=str(owning),
        requester=str(requesting if requesting.name else owning),
        renewers=tuple(str(Principal(each.principal_type, each.principal_name)) for each in described.renewers),
        issue_timestamp_ms=described.issue_timestamp,
        max_timestamp_ms=described.max_timestamp,
        expiry_timestamp_ms=described.expiry_timestamp,
    )
    return DelegationToken(information, bytes(described.hmac))
