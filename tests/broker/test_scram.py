"""DescribeUserScramCredentials v0, while nobody has credentials: what kafka-configs asks when it describes a user."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient

UserName = DescribeUserScramCredentialsRequest.UserName


def described(client: RawClient, version: int, names: list[str] | None) -> list[tuple[str, int, str | None]]:
    """(user, error, message) of each."""
    request = DescribeUserScramCredentialsRequest(None if names is None else [UserName(name) for name in names])
    answer = client.call(request, version, DescribeUserScramCredentialsResponse)
    assert answer.error_code == ErrorCode.NONE
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


@each_version(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def test_nobody_has_credentials(client: RawClient, version: int) -> None:
    assert described(client, version, None) == []
    assert described(client, version, []) == []
    nobody = "Attempt to describe a user credential that does not exist: alice"
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    assert described(client, version, ["alice", "bob", "", "bob"]) == [
        ("alice", ErrorCode.RESOURCE_NOT_FOUND, nobody),
        ("bob", ErrorCode.DUPLICATE_RESOURCE, twice),
        ("", ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"),
    ]
