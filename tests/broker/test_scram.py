"""DescribeUserScramCredentials v0 and AlterUserScramCredentials v0: their errors, user by user."""

from __future__ import annotations

import uuid

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient

UserName = DescribeUserScramCredentialsRequest.UserName
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
SHA_256, SHA_512 = 1, 2


def described(client: RawClient, version: int, names: list[str] | None) -> list[tuple[str, int, str | None]]:
    """(user, error, message) of each."""
    request = DescribeUserScramCredentialsRequest(None if names is None else [UserName(name) for name in names])
    answer = client.call(request, version, DescribeUserScramCredentialsResponse)
    assert answer.error_code == ErrorCode.NONE
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


def altered(
    client: RawClient, deletions: list[Deletion], upsertions: list[Upsertion]
) -> dict[str, tuple[int, str | None]]:
    """User -> error and message."""
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = client.call(request, 0, AlterUserScramCredentialsResponse)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def credentials(client: RawClient, name: str) -> list[tuple[int, int]]:
    """(mechanism, iterations) of each credential, from the description of all users."""
    answer = client.call(DescribeUserScramCredentialsRequest(None), 0, DescribeUserScramCredentialsResponse)
    found = {each.user: each for each in answer.results}
    return [(each.mechanism, each.iterations) for each in found[name].credential_infos] if name in found else []


@each_version(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def test_users_without_credentials(client: RawClient, version: int) -> None:
    nobody = "Attempt to describe a user credential that does not exist: alice"
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    assert described(client, version, ["alice", "bob", "", "bob"]) == [
        ("alice", ErrorCode.RESOURCE_NOT_FOUND, nobody),
        ("bob", ErrorCode.DUPLICATE_RESOURCE, twice),
        ("", ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"),
    ]


@each_version(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def test_credentials_are_set_and_deleted(client: RawClient, version: int) -> None:
    name = f"scram {uuid.uuid4().hex} <v{version}>"
    ok = (ErrorCode.NONE, None)
    set_both = [Upsertion(name, SHA_256, 4096, b"salt", b"a"), Upsertion(name, SHA_512, 16384, b"salt", b"b")]
    assert altered(client, [], set_both) == {name: ok}
    assert credentials(client, name) == [(SHA_256, 4096), (SHA_512, 16384)]
    assert altered(client, [Deletion(name, SHA_256)], [Upsertion(name, SHA_512, 5000, b"s", b"c")]) == {name: ok}
    assert described(client, 0, [name]) == [(name, *ok)]
    assert credentials(client, name) == [(SHA_512, 5000)]
    assert altered(client, [Deletion(name, SHA_512)], []) == {name: ok}
    assert credentials(client, name) == []


def test_each_user_has_its_own_error(client: RawClient) -> None:
    name, twice = uuid.uuid4().hex, uuid.uuid4().hex
    missing = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    assert altered(
        client,
        [Deletion(name, SHA_256), Deletion("unknown", 3), Deletion(twice, SHA_256)],
        [
            Upsertion("", SHA_256, 4096, b"s", b"p"),
            Upsertion("few", SHA_256, 4095, b"s", b"p"),
            Upsertion("many", SHA_512, 16385, b"s", b"p"),
            Upsertion(twice, SHA_256, 4096, b"s", b"p"),
            Upsertion(name, SHA_512, 4096, b"s", b"p"),
        ],
    ) == {
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        twice: (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"),
        name: missing,
    }
    assert credentials(client, name) == [], "nothing of a user is changed when one change is wrong"
