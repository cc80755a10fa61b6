"""What a client is told that wants security of a broker without any: ACLs, SASL, TLS, tokens."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.protocol.messages.tokens import CreateDelegationTokenResponse as NewToken
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient

TOPIC, LITERAL, ALLOW, READ, ANY = 2, 3, 3, 3, 1
NO_TOKENS_HERE = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NO_AUTHORIZER = "No Authorizer is configured."


@each_version(ApiKey.DESCRIBE_ACLS)
def test_acls_cannot_be_described(client: RawClient, version: int) -> None:
    request = DescribeAclsRequest(TOPIC, "topic", operation=ANY, permission_type=ANY)
    answer = client.call(request, version, DescribeAclsResponse)
    told = (answer.error_code, answer.error_message, answer.resources)
    assert told == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker", [])


@each_version(ApiKey.CREATE_ACLS)
def test_acls_cannot_be_created(client: RawClient, version: int) -> None:
    acls = [CreateAclsRequest.AclCreation(TOPIC, name, LITERAL, "User:a", "*", READ, ALLOW) for name in ("a", "b")]
    answer = client.call(CreateAclsRequest(acls), version, CreateAclsResponse)
    assert [(each.error_code, each.error_message) for each in answer.results] == [
        (ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    ] * 2


@each_version(ApiKey.DELETE_ACLS)
def test_acls_cannot_be_deleted(client: RawClient, version: int) -> None:
    filters = [DeleteAclsRequest.DeleteAclsFilter(TOPIC, "a", operation=ANY, permission_type=ANY)]
    answer = client.call(DeleteAclsRequest(filters), version, DeleteAclsResponse)
    assert [(each.error_code, each.error_message, each.matching_acls) for each in answer.filter_results] == [
        (ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER, [])
    ]


@each_version(ApiKey.SASL_HANDSHAKE)
@pytest.mark.parametrize("mechanism", ["PLAIN", "no such mechanism"])
def test_a_plaintext_listener_knows_no_mechanism(client: RawClient, version: int, mechanism: str) -> None:
    answer = client.call(SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@each_version(ApiKey.SASL_AUTHENTICATE)
def test_a_plaintext_listener_authenticates_no_client(client: RawClient, version: int) -> None:
    answer = client.call(SaslAuthenticateRequest(b"\0user\0password"), version, SaslAuthenticateResponse)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )


@each_version(ApiKey.CREATE_DELEGATION_TOKEN)
def test_nobody_gets_a_token_in_plaintext(client: RawClient, version: int) -> None:
    answer = client.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), version, NewToken)
    assert (answer.error_code, answer.token_id, answer.hmac) == (NO_TOKENS_HERE, "", b"")
    assert (answer.principal_type, answer.principal_name, answer.max_timestamp_ms) == ("User", "ANONYMOUS", -1)


@each_version(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def test_no_token_is_shown_in_plaintext(client: RawClient, version: int) -> None:
    answer = client.call(DescribeDelegationTokenRequest(None), version, DescribeDelegationTokenResponse)
    assert (answer.error_code, answer.tokens) == (NO_TOKENS_HERE, [])


@each_version(ApiKey.RENEW_DELEGATION_TOKEN)
def test_no_token_is_renewed_in_plaintext(client: RawClient, version: int) -> None:
    answer = client.call(RenewDelegationTokenRequest(b"hmac", -1), version, RenewDelegationTokenResponse)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (NO_TOKENS_HERE, -1)


@each_version(ApiKey.EXPIRE_DELEGATION_TOKEN)
def test_no_token_is_expired_in_plaintext(client: RawClient, version: int) -> None:
    answer = client.call(ExpireDelegationTokenRequest(b"hmac", -1), version, ExpireDelegationTokenResponse)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (NO_TOKENS_HERE, -1)
