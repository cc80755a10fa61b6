"""The four requests about delegation tokens: who may send them, what each answers, in Kafka's order of checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.handlers.delegation_tokens import DelegationTokensApi
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext
from barnabas.api.request_parser import RequestParser
from barnabas.metadata.delegation_token_manager import DelegationTokenManager, TokenConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from barnabas.security.delegation_token import TokenCache, TokenInformation
from barnabas.zk.kafka_zk_client import KafkaZkClient
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.recording_channel import RecordingChannel

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
Permission = tuple[AclOperation, ResourceType, str]
CREATE_FOR_BOB = (AclOperation.CREATE_TOKENS, ResourceType.USER, BOB)
DESCRIBE_OF_BOB = (AclOperation.DESCRIBE_TOKENS, ResourceType.USER, BOB)
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
HOUR_MS = 3_600_000


class Permissions(Authorizer):
    def __init__(self) -> None:
        self.allowed: set[Permission] = set()

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        return [(each.operation, each.resource_type, each.resource_name) in self.allowed for each in actions]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        raise AssertionError("not asked for tokens")


class Broker:
    def __init__(self, *, enabled: bool = True) -> None:
        self.clock = MockClock()
        self.permissions = Permissions()
        zk = KafkaZkClient(InlineStore(self.clock).new_session(), self.clock)
        cache = TokenCache(lambda password: {})
        config = TokenConfig("secret", 8 * HOUR_MS, 2 * HOUR_MS, HOUR_MS)
        manager = DelegationTokenManager(config, zk.tokens, cache, self.clock)
        manager.start(MockScheduler(self.clock))
        api = DelegationTokensApi(manager if enabled else None, self.permissions)
        self._parser = RequestParser(Registry(api.handlers()))
        self._apis = Apis(ActionQueue(), lambda: 1)
        self._channel = RecordingChannel()

    def call(
        self, body: Message, version: int, principal: str = ALICE, *, protocol: str = "SASL_SSL", by_token: bool = False
    ) -> Any:
        context = ConnectionContext("1", "127.0.0.1", "CLIENTS", protocol, principal)
        context.authenticated_by_token = by_token
        frame = encode_request_header(body.api_key, version, 1, "me") + b"".join(map(bytes, body.encode(version)))
        self._apis.handle(self._parser.parse(frame, context, channel=self._channel, received_ns=1))
        return self._channel.answer()

    def create(self, version: int = 3, owner: str | None = None, renewers: Sequence[str] = (), **client: Any) -> Any:
        body = CreateDelegationTokenRequest(
            renewers=[CreateDelegationTokenRequest.CreatableRenewers(*each.split(":")) for each in renewers],
            max_lifetime_ms=-1,
        )
        if owner is not None:
            body.owner_principal_type, body.owner_principal_name = owner.split(":")
        return self.call(body, version, **client)

    def describe(self, *owners: str, version: int = 3, everybody: bool = False, **client: Any) -> Any:
        named = [DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(*each.split(":")) for each in owners]
        return self.call(DescribeDelegationTokenRequest(None if everybody else named), version, **client)


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_created_described_renewed_and_expired(version: int) -> None:
    broker = Broker()
    token = broker.create(version, renewers=[CAROL])
    assert (token.error_code, token.principal_type, token.principal_name) == (ErrorCode.NONE, "User", "alice")
    if version >= 3:
        assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 2 * HOUR_MS
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 8 * HOUR_MS
    described = broker.describe(ALICE, version=version).tokens
    assert [(each.token_id, each.hmac, each.expiry_timestamp) for each in described] == [
        (token.token_id, token.hmac, token.expiry_timestamp_ms)
    ]
    assert [(each.principal_type, each.principal_name) for each in described[0].renewers] == [("User", "carol")]
    changes = min(version, 2)
    renewed = broker.call(RenewDelegationTokenRequest(token.hmac, 3 * HOUR_MS), changes, CAROL)
    assert (renewed.error_code, renewed.expiry_timestamp_ms - token.issue_timestamp_ms) == (0, 3 * HOUR_MS)
    expired = broker.call(ExpireDelegationTokenRequest(token.hmac, -1), changes)
    assert (expired.error_code, expired.expiry_timestamp_ms) == (0, token.issue_timestamp_ms)
    assert broker.describe(everybody=True, version=version).tokens == []


@pytest.mark.parametrize(
    "client",
    [
        {"protocol": "PLAINTEXT"},
        {"protocol": "SSL", "principal": "User:ANONYMOUS"},
        {"protocol": "SASL_SSL", "by_token": True},
    ],
)
def test_a_client_without_an_identity_of_its_own_gets_nothing(client: dict[str, Any]) -> None:
    broker = Broker()
    token = broker.create()
    refused = broker.create(renewers=["Group:of the wrong type"], **client)
    assert (refused.error_code, refused.token_id, refused.hmac, refused.expiry_timestamp_ms) == (
        NOT_ALLOWED,
        "",
        b"",
        -1,
    )
    for request in (RenewDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenRequest(token.hmac, -1)):
        answer = broker.call(request, 2, **client)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    answer = broker.describe(everybody=True, **client)
    assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])


def test_a_certificate_is_an_identity() -> None:
    assert Broker().create(protocol="SSL", principal="User:CN=app").error_code == ErrorCode.NONE


def test_tokens_for_other_owners_need_a_permission() -> None:
    broker = Broker()
    refused = broker.create(owner=BOB, renewers=["Group:of the wrong type"])
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert broker.create(owner=ALICE).error_code == ErrorCode.NONE, "oneself is not another"
    broker.permissions.allowed.add(CREATE_FOR_BOB)
    created = broker.create(owner=BOB)
    assert (created.error_code, created.principal_name) == (ErrorCode.NONE, "bob")
    renewal = broker.call(RenewDelegationTokenRequest(created.hmac, -1), 2)
    assert renewal.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert broker.create(renewers=["Group:x"]).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_which_tokens_a_client_sees() -> None:
    broker = Broker()
    broker.permissions.allowed.add(CREATE_FOR_BOB)
    mine, of_bob = broker.create(renewers=[CAROL]), broker.create(owner=BOB)
    anothers = broker.create(principal="User:dora")

    def seen(principal: str, *owners: str) -> set[str]:
        answer = broker.describe(*owners, everybody=not owners, principal=principal)
        return {each.token_id for each in answer.tokens}

    assert seen(ALICE) == {mine.token_id, of_bob.token_id}, "as owner, and as requester"
    assert seen(ALICE, BOB) == {of_bob.token_id}
    assert seen(CAROL) == {mine.token_id}, "as renewer"
    assert seen("User:eve") == seen("User:eve", BOB, ALICE) == set()
    assert broker.describe().tokens == [], "an empty list names nobody"
    broker.permissions.allowed = {DESCRIBE_OF_BOB}
    assert seen("User:eve") == {of_bob.token_id}
    broker.permissions.allowed = {(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, anothers.token_id)}
    assert seen("User:eve") == {anothers.token_id}


class Asked(AbstractSet[str]):
    """Principals that are looked up and never walked through."""

    def __contains__(self, principal: object) -> bool:
        return principal == "User:renewer"

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("as many steps as a request has owners, for each token")

    def __len__(self) -> int:
        return 250_000


def test_owners_that_are_asked_for_cost_one_step_a_token() -> None:
    token = TokenInformation("id", "User:alice", "User:bob", ("User:renewer",), 1, 3, 2)
    assert token.belongs_to(Asked())
    assert not token._replace(renewers=()).belongs_to(Asked())


def test_without_the_secret_there_are_no_tokens() -> None:
    broker = Broker(enabled=False)
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert broker.create().error_code == disabled
    assert broker.call(RenewDelegationTokenRequest(b"x", -1), 2).error_code == disabled
    assert broker.call(ExpireDelegationTokenRequest(b"x", -1), 2).error_code == disabled
    assert broker.describe(everybody=True).error_code == disabled
