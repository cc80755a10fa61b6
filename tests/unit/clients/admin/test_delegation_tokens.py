"""The admin client's calls about delegation tokens, on scripted brokers of several ages."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.admin import Admin, DelegationToken, TokenInformation
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
from tests.support.scripted_cluster import ScriptedCluster

TOKEN = DelegationToken(TokenInformation("id", "User:bob", "User:alice", ("User:c:d",), 1, 3, 2), b"\1\2")
REQUESTS = (
    CreateDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    DescribeDelegationTokenRequest,
)


class Setting:
    """Brokers that answer with `TOKEN`; they name no requester before version 3."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster({}, extra=REQUESTS)
        self.error = ErrorCode.NONE
        self.heard: list[Any] = []
        self.cluster.handlers[ApiKey.CREATE_DELEGATION_TOKEN] = self.create
        self.cluster.handlers[ApiKey.RENEW_DELEGATION_TOKEN] = self.renew
        self.cluster.handlers[ApiKey.EXPIRE_DELEGATION_TOKEN] = self.expire
        self.cluster.handlers[ApiKey.DESCRIBE_DELEGATION_TOKEN] = self.describe
        self.admin = Admin("", client=self.cluster.client())

    def create(self, request: Any) -> CreateDelegationTokenResponse:
        self.heard.append(request.body)
        return CreateDelegationTokenResponse(
            error_code=self.error,
            principal_type="User",
            principal_name="bob",
            token_requester_principal_type="User",
            token_requester_principal_name="alice",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="id",
            hmac=TOKEN.hmac,
        )

    def renew(self, request: Any) -> RenewDelegationTokenResponse:
        self.heard.append((request.body.hmac, request.body.renew_period_ms))
        return RenewDelegationTokenResponse(self.error, 7)

    def expire(self, request: Any) -> ExpireDelegationTokenResponse:
        self.heard.append((request.body.hmac, request.body.expiry_time_period_ms))
        return ExpireDelegationTokenResponse(self.error, 8)

    def describe(self, request: Any) -> DescribeDelegationTokenResponse:
        owners = request.body.owners
        self.heard.append(owners and [(each.principal_type, each.principal_name) for each in owners])
        renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer("User", "c:d")
        token = DescribeDelegationTokenResponse.DescribedDelegationToken(
            "User", "bob", "User", "alice", 1, 2, 3, "id", TOKEN.hmac, [renewer]
        )
        return DescribeDelegationTokenResponse(self.error, [token])


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_token_with_all_its_properties(setting: Setting) -> None:
    made = setting.admin.create_delegation_token(owner="User:bob", renewers=["User:c:d"], max_lifetime_ms=2)
    assert made == TOKEN
    request = setting.heard[0]
    assert (request.owner_principal_type, request.owner_principal_name) == ("User", "bob")
    assert [(each.principal_type, each.principal_name) for each in request.renewers] == [("User", "c:d")]
    assert setting.admin.describe_delegation_tokens(["User:bob"]) == [TOKEN]
    assert setting.admin.describe_delegation_tokens() == [TOKEN]
    assert setting.heard[1:] == [[("User", "bob")], None]


def test_renewal_and_expiry(setting: Setting) -> None:
    assert setting.admin.renew_delegation_token(b"h") == 7
    assert setting.admin.expire_delegation_token(b"h", 5) == 8
    assert setting.heard == [(b"h", -1), (b"h", 5)]


def test_errors(setting: Setting) -> None:
    setting.error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    calls = (
        setting.admin.create_delegation_token,
        lambda: setting.admin.renew_delegation_token(b"h"),
        lambda: setting.admin.expire_delegation_token(b"h"),
        setting.admin.describe_delegation_tokens,
    )
    for call in calls:
        with pytest.raises(ApiError) as raised:
            call()
        assert raised.value.code is setting.error
    with pytest.raises(ValueError, match="principalType:principalName but got alice"):
        setting.admin.create_delegation_token(owner="alice")
