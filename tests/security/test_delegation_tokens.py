"""Delegation tokens on a broker with SASL: created by a password, used for logins, gone when they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
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
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.raw_client import SECONDS, ConnectionClosed
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

PASSWORDS = {"alice": "alice-knows-this", "bob": "bob-knows-this"}
SECRET = "the-secret-of-all-brokers"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_LONGEST_MS = 64_000
Connect = Callable[[], SaslRawClient]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    """A broker with a SASL listener and a secret for tokens."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.secret.key": SECRET,
    }
    started = BarnabasProcess(tmp_path_factory.mktemp("tokens"), SERVER_PROPERTIES | settings)
    started.more_listeners = ("SASL://127.0.0.1:0",)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def connect(broker: BarnabasProcess) -> Iterator[Connect]:
    """Opens connections to the SASL listener, which are closed behind the test."""
    with ExitStack() as connections:
        yield lambda: connections.enter_context(SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])))


def logged_in(connect: Connect, user: str) -> SaslRawClient:
    client = connect()
    assert client.log_in(user, PASSWORDS[user]).error_code == ErrorCode.NONE
    return client


def create(client: SaslRawClient, *renewers: str, lifetime_ms: int = -1) -> DelegationToken:
    request = CreateDelegationTokenRequest(
        renewers=[CreateDelegationTokenRequest.CreatableRenewers("User", name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    answer = client.call(request, 3, CreateDelegationTokenResponse)
    assert answer.error_code == ErrorCode.NONE
    owner = f"{answer.principal_type}:{answer.principal_name}"
    times = (answer.issue_timestamp_ms, answer.max_timestamp_ms, answer.expiry_timestamp_ms)
    return DelegationToken(TokenInformation(answer.token_id, owner, owner, renewers, *times), bytes(answer.hmac))


def log_in_by(token: DelegationToken, connect: Connect, mechanism: str = "SCRAM-SHA-256") -> tuple[Any, SaslRawClient]:
    client = connect()
    return client.log_in(token.information.token_id, token.password, mechanism, is_token=True), client


def described(client: SaslRawClient) -> list[str]:
    answer = client.call(DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse)
    assert answer.error_code == ErrorCode.NONE
    return [each.token_id for each in answer.tokens]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_token_is_a_login_of_its_owner(connect: Connect, mechanism: str) -> None:
    token = create(logged_in(connect, "alice"))
    assert token.information.owner == "User:alice"
    answer, client = log_in_by(token, connect, mechanism)
    assert answer.error_code == ErrorCode.NONE
    client.call(MetadataRequest(topics=None), 12, MetadataResponse)


def test_a_login_by_token_gets_no_tokens(connect: Connect) -> None:
    token = create(logged_in(connect, "alice"))
    _, client = log_in_by(token, connect)
    created = client.call(
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 1, CreateDelegationTokenResponse
    )
    assert created.error_code == NOT_ALLOWED
    renewed = client.call(RenewDelegationTokenRequest(token.hmac, -1), 2, RenewDelegationTokenResponse)
    assert renewed.error_code == NOT_ALLOWED
    expired = client.call(ExpireDelegationTokenRequest(token.hmac, -1), 2, ExpireDelegationTokenResponse)
    assert expired.error_code == NOT_ALLOWED
    shown = client.call(DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse)
    assert shown.error_code == NOT_ALLOWED


def test_wrong_logins_by_token(connect: Connect) -> None:
    token = create(logged_in(connect, "alice"))
    other = create(logged_in(connect, "bob"))
    for wrong in (
        DelegationToken(token.information, other.hmac),
        DelegationToken(token.information, b""),
        DelegationToken(TokenInformation("unknown", "", "", (), 0, 0, 0), token.hmac),
    ):
        answer, client = log_in_by(wrong, connect)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()
    # A token is no user, and a user no token.
    client = connect()
    answer = client.log_in(token.information.token_id, token.password, "SCRAM-SHA-256")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def _short_session(client: SaslRawClient, connect: Connect) -> tuple[DelegationToken, SaslRawClient]:
    """Log in by a token that ends soon; by a longer one if the machine is so busy that it ended before the login."""
    lifetime_ms = 1_000
    while True:
        token = create(client, lifetime_ms=lifetime_ms)
        answer, by_token = log_in_by(token, connect)
        if answer.error_code == ErrorCode.NONE:
            return token, by_token
        lifetime_ms *= 4
        assert lifetime_ms <= _LONGEST_MS


def test_a_session_ends_with_its_token(connect: Connect) -> None:
    alice = logged_in(connect, "alice")
    token, client = _short_session(alice, connect)
    ends_at = time.monotonic() + _LONGEST_MS / 1000 + SECONDS
    with pytest.raises((ConnectionClosed, OSError)):  # noqa: PT012
        while time.monotonic() < ends_at:
            client.call(MetadataRequest(topics=[]), 12, MetadataResponse)
            time.sleep(0.05)
    assert log_in_by(token, connect)[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    alice.call(MetadataRequest(topics=[]), 12, MetadataResponse)


def test_renewers_may_end_a_token_and_others_may_not(connect: Connect) -> None:
    token = create(logged_in(connect, "alice"), "bob")
    bob = logged_in(connect, "bob")
    renewal = bob.call(RenewDelegationTokenRequest(token.hmac, 60_000), 2, RenewDelegationTokenResponse)
    assert renewal.error_code == ErrorCode.NONE
    assert token.information.token_id in described(bob)
    private = create(logged_in(connect, "alice"))
    refused = bob.call(ExpireDelegationTokenRequest(private.hmac, -1), 2, ExpireDelegationTokenResponse)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    ended = bob.call(ExpireDelegationTokenRequest(token.hmac, -1), 2, ExpireDelegationTokenResponse)
    assert ended.error_code == ErrorCode.NONE
    assert log_in_by(token, connect)[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert log_in_by(private, connect)[0].error_code == ErrorCode.NONE


def test_tokens_outlive_a_kill_and_appear_in_no_log(broker: BarnabasProcess, connect: Connect) -> None:
    token = create(logged_in(connect, "alice"))
    ended = create(logged_in(connect, "alice"))
    logged_in(connect, "alice").call(ExpireDelegationTokenRequest(ended.hmac, -1), 2, ExpireDelegationTokenResponse)
    # A kill loses the lines that are not written yet.
    created = f"Created a delegation token: {token.information.token_id} for owner: User:alice"
    wait_for_log_line(broker, created)
    broker.kill()
    broker.start()
    assert log_in_by(token, connect)[0].error_code == ErrorCode.NONE
    assert log_in_by(ended, connect)[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert token.information.token_id in described(logged_in(connect, "alice"))
    log = broker.log_text()
    for secret in (SECRET, token.password, ended.password, token.hmac.hex(), *PASSWORDS.values()):
        assert secret not in log
