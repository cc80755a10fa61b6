"""kafka-acls, kafka-configs for users, and kafka-delegation-tokens: of 3.9 and of 4, on ours as on Apache Kafka 3.9."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.quotas import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from barnabas.security.acl.acl_codes import PatternType
from tests.support.apache_kafka import need_apache_kafka
from tests.support.raw_client import SECONDS, RawClient
from tests.tools.kafka_tools import KafkaTools, ToolOutput
from tests.tools.secured_steps import SecuredPair, SecuredSteps, secured_pair

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

ACLS, CONFIGS, TOKENS = "kafka-acls", "kafka-configs", "kafka-delegation-tokens"
HMAC = re.compile(r"(?P<id>[A-Za-z0-9_-]{22})\s+(?P<hmac>[A-Za-z0-9+/]{86}==)")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPair]:
    need_apache_kafka()
    with secured_pair(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture
def steps(tools: KafkaTools, pair: SecuredPair) -> Iterator[SecuredSteps]:
    """Steps on brokers without lists and credentials, which are there no more afterwards."""
    yield SecuredSteps(tools, pair)
    credentials = [AlterUserScramCredentialsRequest.ScramCredentialDeletion("alice", number) for number in (1, 2)]
    everything = DeleteAclsRequest.DeleteAclsFilter(1, None, PatternType.ANY, None, None, 1, 1)
    for secured in pair:
        with RawClient(secured.server) as operator:
            operator.call(DeleteAclsRequest([everything]), 3, DeleteAclsResponse)
            # Of a test that has failed: those that are not there are an error that nobody minds.
            operator.call(AlterUserScramCredentialsRequest(credentials, []), 0, AlterUserScramCredentialsResponse)


# -- kafka-acls


@pytest.mark.parametrize(
    "entry",
    [
        "--allow-principal User:bob --operation Read --operation Describe --topic orders",
        "--allow-principal User:bob --allow-principal User:carol --allow-host 10.0.0.1 --operation All --topic *",
        "--deny-principal User:* --deny-host 10.0.0.9 --operation Write --topic orders",
        "--allow-principal User:bob --producer --topic orders",
        "--allow-principal User:bob --producer --idempotent --transactional-id payments --topic orders",
        "--allow-principal User:bob --consumer --topic orders --group billing",
        "--allow-principal User:bob --producer --consumer --topic orders --group billing",
        "--allow-principal User:bob --consumer --topic ord --group bil --resource-pattern-type prefixed",
        "--allow-principal User:bob --operation Alter --operation ClusterAction --cluster",
        "--allow-principal User:bob --operation Describe --delegation-token some-token",
        "--allow-principal User:bob --operation CreateTokens --user-principal User:alice",
        "--allow-principal User:bob --operation Write --transactional-id payments",
    ],
)
def test_entries_are_added_listed_and_removed(steps: SecuredSteps, entry: str) -> None:
    words = entry.split()
    added, _ = steps.run(ACLS, "--add", *words)
    assert "Adding ACLs for resource" in added.stdout
    listed, _ = steps.run(ACLS, "--list")
    assert "permissionType=" in listed.stdout
    steps.run(ACLS, "--add", *words)
    removed, _ = steps.run(ACLS, "--remove", "--force", *words)
    assert removed.status == 0, removed.text
    nothing, _ = steps.run(ACLS, "--list")
    assert "permissionType=" not in nothing.stdout


def test_lists_are_filtered(steps: SecuredSteps) -> None:
    bob = ("--allow-principal", "User:bob")
    steps.run(ACLS, "--add", *bob, "--operation", "Read", "--topic", "orders")
    steps.run(ACLS, "--add", *bob, "--operation", "Read", "--topic", "ord", "--resource-pattern-type", "prefixed")
    steps.run(ACLS, "--add", *bob, "--operation", "Read", "--topic", "*")
    steps.run(ACLS, "--add", "--deny-principal", "User:carol", "--operation", "Write", "--topic", "orders")
    for pattern_type in ("literal", "prefixed", "match", "any"):
        steps.run(ACLS, "--list", "--topic", "orders", "--resource-pattern-type", pattern_type)
    steps.run(ACLS, "--list", "--topic", "orders", "--principal", "User:carol")
    steps.run(ACLS, "--list", "--group", "*")
    steps.run(ACLS, "--remove", "--force", "--topic", "no-such-topic")
    removed, _ = steps.run(ACLS, "--remove", "--force", "--topic", "orders", "--resource-pattern-type", "match")
    assert removed.status == 0, removed.text
    nothing, _ = steps.run(ACLS, "--list")
    assert "permissionType=" not in nothing.stdout


@pytest.mark.parametrize(
    "words",
    [
        "--add --allow-principal User:bob --operation Write --group billing",
        "--add --allow-principal User:bob --operation Read",
        "--add --operation Read --topic orders",
        "--add --allow-principal bob --operation Read --topic orders",
        "--add --allow-principal User:bob --consumer --topic orders",
        "--add --allow-principal User:bob --operation Sing --topic orders",
        "--add --allow-principal User:bob --operation Read --topic orders --resource-pattern-type match",
    ],
)
def test_wrong_entries_are_refused(steps: SecuredSteps, words: str) -> None:
    refused, _ = steps.run(ACLS, *words.split())
    assert "Adding ACLs" not in refused.text, refused.text
    nothing, _ = steps.run(ACLS, "--list")
    assert "permissionType=" not in nothing.stdout


def test_users_without_the_right_cannot_see_or_change_lists(steps: SecuredSteps) -> None:
    for words in ("--list", "--add --allow-principal User:bob --operation Read --topic orders"):
        refused, _ = steps.run(ACLS, *words.split(), user="bob")
        assert "ClusterAuthorizationException" in refused.text, refused.text


# -- kafka-configs of users


def users(steps: SecuredSteps, *words: str) -> ToolOutput:
    """A step about alice on both; ours."""
    return steps.run(CONFIGS, *words, "--entity-type", "users", "--entity-name", "alice")[0]


def await_login(steps: SecuredSteps, password: str, mechanism: str, expected: ErrorCode) -> None:
    """Wait until alice's logins end so on both: a credential counts a moment after the answer."""
    deadline = time.monotonic() + 4 * SECONDS
    for secured in steps.pair:
        while secured.error_of_login("alice", password, mechanism) != expected:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_credentials_of_users(steps: SecuredSteps) -> None:
    credentials = "SCRAM-SHA-256=[iterations=8192,password=first],SCRAM-SHA-512=[password=second]"
    users(steps, "--alter", "--add-config", credentials)
    await_login(steps, "first", "SCRAM-SHA-256", ErrorCode.NONE)
    await_login(steps, "second", "SCRAM-SHA-512", ErrorCode.NONE)
    assert "iterations=8192" in users(steps, "--describe").stdout
    steps.run(CONFIGS, "--describe", "--entity-type", "users")
    users(
        steps, "--alter", "--add-config", "SCRAM-SHA-256=[password=third],consumer_byte_rate=1024"
    )  # one or the other
    users(steps, "--alter", "--add-config", "SCRAM-SHA-256=[password=third]")
    users(steps, "--alter", "--add-config", "consumer_byte_rate=1024")
    await_login(steps, "third", "SCRAM-SHA-256", ErrorCode.NONE)
    await_login(steps, "first", "SCRAM-SHA-256", ErrorCode.SASL_AUTHENTICATION_FAILED)
    users(steps, "--describe")
    users(steps, "--alter", "--delete-config", "consumer_byte_rate")
    users(steps, "--alter", "--delete-config", "SCRAM-SHA-512")
    await_login(steps, "second", "SCRAM-SHA-512", ErrorCode.SASL_AUTHENTICATION_FAILED)
    users(steps, "--alter", "--delete-config", "SCRAM-SHA-256")
    await_login(steps, "third", "SCRAM-SHA-256", ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert "SCRAM" not in users(steps, "--describe").stdout


@pytest.mark.parametrize(
    "words",
    [
        "--add-config SCRAM-SHA-256=[iterations=4095,password=x]",
        "--add-config SCRAM-SHA-256=[iterations=16385,password=x]",
        "--add-config SCRAM-SHA-256=[iterations=8192]",
        "--add-config SCRAM-SHA-1=[password=x]",
        "--add-config SCRAM-SHA-256=[password=]",
        "--delete-config SCRAM-SHA-512",
    ],
)
def test_wrong_credentials_are_refused(steps: SecuredSteps, words: str) -> None:
    refused = users(steps, "--alter", *words.split())
    assert refused.status != 0, refused.text
    assert "SCRAM" not in users(steps, "--describe").stdout


# -- kafka-delegation-tokens


def tokens_of(outputs: list[ToolOutput]) -> list[re.Match[str]]:
    """The one token in each output."""
    found = [match for output in outputs if (match := HMAC.search(output.stdout)) is not None]
    assert len(found) == len(outputs), [output.text for output in outputs]
    return found


def test_a_token_is_created_described_renewed_used_and_ended(steps: SecuredSteps) -> None:
    created = steps.run(
        TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob", user="alice"
    )
    tokens = tokens_of(created)
    for secured, token in zip(steps.pair, tokens, strict=True):
        deadline = time.monotonic() + SECONDS
        while secured.error_of_login(token["id"], token["hmac"], "SCRAM-SHA-256", is_token=True) != ErrorCode.NONE:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    steps.run(TOKENS, "--describe", user="alice")
    steps.run(TOKENS, "--describe", "--owner-principal", "User:alice", user="alice")
    steps.run(TOKENS, "--describe", "--owner-principal", "User:alice", user="bob")
    renewed = [("--renew", "--renew-time-period", "3600000", "--hmac", token["hmac"]) for token in tokens]
    steps.run_each(TOKENS, renewed, user="bob")
    ended = [("--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"]) for token in tokens]
    steps.run_each(TOKENS, ended, user="alice")
    for secured, token in zip(steps.pair, tokens, strict=True):
        error = secured.error_of_login(token["id"], token["hmac"], "SCRAM-SHA-256", is_token=True)
        assert error == ErrorCode.SASL_AUTHENTICATION_FAILED
    steps.run_each(TOKENS, ended, user="alice")
    steps.run(TOKENS, "--describe", user="alice")


def test_tokens_of_others(steps: SecuredSteps) -> None:
    steps.run(TOKENS, "--create", "--max-life-time-period", "-1", "--owner-principal", "User:bob", user="alice")
    steps.run(
        ACLS, "--add", "--allow-principal", "User:alice", "--operation", "CreateTokens", "--user-principal", "User:bob"
    )
    owned = steps.run(TOKENS, "--create", "--max-life-time-period", "-1", "--owner-principal", "User:bob", user="alice")
    tokens = tokens_of(owned)
    steps.run(TOKENS, "--describe", user="bob")
    ended = [("--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"]) for token in tokens]
    steps.run_each(TOKENS, ended, user="bob")
    steps.run(ACLS, "--remove", "--force", "--user-principal", "User:bob")


@pytest.mark.parametrize(
    "words",
    [
        "--create --max-life-time-period -1",
        "--describe",
        "--renew --renew-time-period -1 --hmac bm8gc3VjaCB0b2tlbg==",
        "--expire --expiry-time-period -1 --hmac bm8gc3VjaCB0b2tlbg==",
    ],
)
def test_an_operator_without_a_login_has_no_tokens(steps: SecuredSteps, words: str) -> None:
    refused, _ = steps.run(TOKENS, *words.split(), "--command-config", "/dev/null")
    assert "Exception" in refused.text, refused.text


def test_a_token_that_does_not_exist(steps: SecuredSteps) -> None:
    for words in ("--renew --renew-time-period", "--expire --expiry-time-period"):
        steps.run(TOKENS, *words.split(), "-1", "--hmac", "bm8gc3VjaCB0b2tlbg==", user="alice")
