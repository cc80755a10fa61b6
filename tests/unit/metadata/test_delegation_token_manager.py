"""Delegation tokens: their life on one broker, the way to others, what the store keeps."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from barnabas.metadata.delegation_token_manager import DelegationTokenManager, TokenConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.delegation_token import DelegationToken, TokenCache
from barnabas.security.sasl.scram_mechanism import SCRAM_SHA_256, SCRAM_SHA_512, StoredScramCredential
from barnabas.zk.kafka_zk_client import KafkaZkClient
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

ALICE, BOB, CAROL, MALLORY = "User:alice", "User:bob", "User:carol", "User:mallory"
SECRET = "the cluster's secret"
WEEK_MS, DAY_MS, HOUR_MS = 604_800_000, 86_400_000, 3_600_000


class Cluster:
    def __init__(self) -> None:
        self.clock = MockClock()
        self.store = InlineStore(self.clock)
        self.scheduler = MockScheduler(self.clock)

    def broker(self, secret: str = SECRET) -> Broker:
        return Broker(self, secret)

    def settle(self) -> None:
        while self.store.deliver() + self.scheduler.tick():
            pass


class Broker:
    """A broker that knows tokens. `made`: the passwords for which credentials were made."""

    def __init__(self, cluster: Cluster, secret: str) -> None:
        self.zk = KafkaZkClient(cluster.store.new_session(), cluster.clock)
        self.made: list[str] = []
        self.cache = TokenCache(self._credentials)
        config = TokenConfig(secret, WEEK_MS, DAY_MS, HOUR_MS)
        self.manager = DelegationTokenManager(config, self.zk.tokens, self.cache, cluster.clock)
        self.manager.start(cluster.scheduler)

    def _credentials(self, password: str) -> dict[str, StoredScramCredential]:
        self.made.append(password)
        return {"SCRAM-SHA-256": StoredScramCredential(b"salt", password.encode(), b"server key", 4096)}

    def create(
        self, owner: str = ALICE, requester: str = ALICE, *renewers: str, lifetime_ms: int = -1
    ) -> DelegationToken:
        return self.manager.create(owner, requester, renewers, lifetime_ms)

    def ids(self) -> list[str]:
        return sorted(token.information.token_id for token in self.cache.all())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def refusal(call: object, *args: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(ApiError) as raised:
        call(*args)
    return raised.value.code


def test_a_new_token(cluster: Cluster) -> None:
    broker = cluster.broker()
    token = broker.create(ALICE, BOB, CAROL)
    information, now_ms = token.information, cluster.clock.milliseconds()
    assert (information.owner, information.requester, information.renewers) == (ALICE, BOB, (CAROL,))
    assert information.issue_timestamp_ms == now_ms
    assert information.max_timestamp_ms == now_ms + WEEK_MS
    assert information.expiry_timestamp_ms == now_ms + DAY_MS
    assert token.hmac == hmac.new(SECRET.encode(), information.token_id.encode(), hashlib.sha512).digest()
    password = base64.b64encode(token.hmac).decode()
    credential = broker.cache.credential(information.token_id, "SCRAM-SHA-256")
    assert credential is not None
    assert credential.stored_key == password.encode()
    assert broker.cache.credential(information.token_id, "SCRAM-SHA-512") is None
    assert password not in repr(token)


@pytest.mark.parametrize(
    ("wanted_ms", "lifetime_ms"), [(-1, WEEK_MS), (0, WEEK_MS), (5, 5), (WEEK_MS + 1, WEEK_MS), (2**63 - 1, WEEK_MS)]
)
def test_the_lifetime_is_the_settings_at_most(cluster: Cluster, wanted_ms: int, lifetime_ms: int) -> None:
    information = cluster.broker().create(lifetime_ms=wanted_ms).information
    assert information.max_timestamp_ms - information.issue_timestamp_ms == lifetime_ms
    assert information.expiry_timestamp_ms - information.issue_timestamp_ms == min(lifetime_ms, DAY_MS)


def test_a_login_by_a_token_that_has_expired_fails_before_the_token_is_removed(cluster: Cluster) -> None:
    broker = cluster.broker()
    information = broker.create(BOB, ALICE, lifetime_ms=HOUR_MS).information
    found = broker.manager.credential(SCRAM_SHA_256, information.token_id)
    assert found is not None
    assert (found.owner, found.expires_ms) == ("bob", information.expiry_timestamp_ms)
    assert found.credential == broker.cache.credential(information.token_id, "SCRAM-SHA-256")
    assert broker.manager.credential(SCRAM_SHA_512, information.token_id) is None
    assert broker.manager.credential(SCRAM_SHA_256, "unknown") is None
    cluster.clock.advance(HOUR_MS + 1)
    assert broker.ids() == [information.token_id]
    assert broker.manager.credential(SCRAM_SHA_256, information.token_id) is None


def test_renewals_prolong_a_token_up_to_its_lifetime(cluster: Cluster) -> None:
    broker = cluster.broker()
    token = broker.create(ALICE, BOB, CAROL)
    cluster.clock.advance(HOUR_MS)
    now_ms = cluster.clock.milliseconds()
    assert broker.manager.renew(ALICE, token.hmac, -1) == now_ms + DAY_MS
    assert broker.manager.renew(CAROL, token.hmac, 2 * DAY_MS) == now_ms + 2 * DAY_MS
    assert broker.manager.renew(ALICE, token.hmac, 2**63 - 1) == token.information.max_timestamp_ms
    assert len(broker.made) == 1, "a renewal makes no new credentials"


def test_who_may_not_change_a_token(cluster: Cluster) -> None:
    broker = cluster.broker()
    token = broker.create(ALICE, BOB, CAROL)
    for change in (broker.manager.renew, broker.manager.expire):
        assert refusal(change, MALLORY, token.hmac, 1) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert refusal(change, BOB, token.hmac, 1) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "the requester only"
        assert refusal(change, ALICE, b"no hmac", 1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert refusal(change, ALICE, b"", -1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert broker.cache.information(token.information.token_id) == token.information


def test_a_token_ends(cluster: Cluster) -> None:
    broker = cluster.broker()
    at_once, soon, overdue = broker.create(), broker.create(), broker.create(lifetime_ms=HOUR_MS)
    now_ms = cluster.clock.milliseconds()
    assert broker.manager.expire(ALICE, at_once.hmac, -1) == now_ms
    assert broker.manager.expire(ALICE, soon.hmac, 2 * HOUR_MS) == now_ms + 2 * HOUR_MS
    assert broker.ids() == sorted([overdue.information.token_id, soon.information.token_id])
    assert broker.zk.tokens.read(at_once.information.token_id) is None
    cluster.clock.advance(HOUR_MS + 1)
    # Expired, and not yet removed: it can be removed, and not prolonged.
    assert refusal(broker.manager.renew, ALICE, overdue.hmac, -1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(broker.manager.expire, ALICE, overdue.hmac, 1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    cluster.settle()
    assert broker.ids() == [soon.information.token_id], "the check for expired tokens ran"
    assert sorted(broker.zk.tokens.ids()) == [soon.information.token_id]


def test_other_brokers_follow(cluster: Cluster) -> None:
    first = cluster.broker()
    before = first.create()
    second = cluster.broker()
    assert second.ids() == [before.information.token_id]
    token = first.create(BOB, ALICE, CAROL)
    cluster.settle()
    assert second.cache.by_hmac(token.hmac) == token
    second.manager.renew(CAROL, token.hmac, 5)
    cluster.settle()
    renewed = first.cache.information(token.information.token_id)
    assert renewed is not None
    assert renewed.expiry_timestamp_ms == cluster.clock.milliseconds() + 5
    second.manager.expire(BOB, token.hmac, -1)
    cluster.settle()
    assert first.ids() == second.ids() == [before.information.token_id]
    second.manager.stop()
    first.create()
    cluster.settle()
    assert len(second.ids()) == 1


def test_brokers_with_another_secret_know_other_passwords(cluster: Cluster) -> None:
    token = cluster.broker().create()
    other = cluster.broker("another secret")
    assert other.ids() == [token.information.token_id]
    assert refusal(other.manager.renew, ALICE, token.hmac, -1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_store_holds_kafkas_json_without_the_hmac(cluster: Cluster) -> None:
    broker = cluster.broker()
    token = broker.create("User:CN=a b,O=ü", BOB, CAROL)
    information = token.information
    node = broker.zk.access.get(f"/delegation_token/tokens/{information.token_id}")
    assert node is not None
    assert json.loads(node.data) == {
        "version": 3,
        "owner": "User%3ACN%3Da%20b%2CO%3D%C3%BC",
        "tokenRequester": "User%3Abob",
        "renewers": ["User%3Acarol"],
        "issueTimestamp": information.issue_timestamp_ms,
        "maxTimestamp": information.max_timestamp_ms,
        "expiryTimestamp": information.expiry_timestamp_ms,
        "tokenId": information.token_id,
    }
    assert broker.zk.tokens.read(information.token_id) == information
    notices = broker.zk.tokens.notices
    assert [notices.read(name) for name in notices.names()] == [
        (information.token_id.encode(), cluster.clock.milliseconds())
    ]


def test_tokens_of_older_brokers_and_nonsense(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    first = cluster.broker()
    old = {"version": 1, "owner": "User%3Aalice", "renewers": [], "tokenId": "old"}
    times = {"issueTimestamp": 1, "maxTimestamp": 2**60, "expiryTimestamp": 2**60}
    store = first.zk.access.store
    store.create("/delegation_token/tokens/old", json.dumps(old | times).encode())
    nonsense = {
        "none": b"",
        "text": b"nonsense",
        "future": json.dumps(old | times | {"version": 4}).encode(),
        "ownerless": json.dumps(times | {"version": 1, "tokenId": "ownerless", "renewers": []}).encode(),
        "typeless": json.dumps(old | times | {"owner": "alice"}).encode(),
        "numberless": json.dumps(old | times | {"maxTimestamp": "soon"}).encode(),
    }
    for name, data in nonsense.items():
        store.create(f"/delegation_token/tokens/{name}", data)
    second = cluster.broker()
    assert second.ids() == ["old"]
    known = second.cache.information("old")
    assert known is not None
    assert known.requester == ALICE, "version 1 has no requester: it was the owner"
    for name in nonsense.keys() - {"none"}:
        assert f"Ignoring the delegation token {name}" in caplog.text
