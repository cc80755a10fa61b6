"""The rules of Kafka for security that changes, one function each (see the package's table).

Called by the tests and by the campaign, on their thread. Each has users and topics of its own, uses connections of its
own, one request at a time, and asserts what the broker answers; it holds for ours and for Apache Kafka 3.9.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import pytest

from barnabas.clients.admin import AclOperation, AclPermissionType, Admin, DelegationToken, NewTopic
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.chaos.verification import fetched
from tests.security.rotation.place import CERTIFICATE_NAMES, CLIENTS, SHA_256, SHA_512, Place, entry, eventually
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.sasl_exchange import SaslRawClient

Rule = Callable[[Place], None]
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, WRITE = AclOperation.READ, AclOperation.WRITE
CACHED_DECISIONS = 50
TOKEN_MS = 1_500
"""The life of a token whose end a rule waits for; twice as long after each login by it that came too late."""
LONG_MS = 3_600_000
CLOCKS_DIFFER_BY_MS = 500
AGAIN_AFTER_SECONDS = 1.1
"""A session may log in again once a second."""
_numbers = itertools.count()


def a_new_name(kind: str) -> str:
    """A name that no rule has had."""
    return f"{kind}-{next(_numbers)}"


def is_served(client: RawClient) -> bool:
    """Whether a request is answered on this connection."""
    try:
        client.call(MetadataRequest(topics=[]), 9, MetadataResponse)
    except (ConnectionClosed, OSError):
        return False
    return True


def log_in_again(client: SaslRawClient, user: str, password: str, *, is_token: bool = False) -> int:
    """Log in on a connection that has a session (KIP-368); the error code."""
    return client.log_in(user, password, SHA_256, is_token=is_token).error_code


# -- certificates


def certificates(place: Place) -> None:
    """New key stores by another path, then by another file at the same path; one of another subject is refused."""
    user = a_new_name("user")
    place.add_user(user, "known")
    with ExitStack() as sessions:
        before = [sessions.enter_context(place.logged_in(user, "known", number)) for number in place.numbers]
        paths = {}
        for number, listener in itertools.product(place.numbers, place.tls_listeners):
            paths[number, listener] = path = place.directory / f"{a_new_name('server')}.pem"
            renewed = place.certificates.authority.issue("server", names=CERTIFICATE_NAMES)
            renewed.write_pem(path)
            place.set_key_store(number, listener, path)
            eventually(lambda: place.served_certificate(number, listener) == renewed.certificate_der)  # noqa: B023
        for (number, listener), path in paths.items():
            replaced = place.certificates.authority.issue("server", names=CERTIFICATE_NAMES)
            replaced.write_pem(path.with_suffix(".new")).replace(path)
            place.set_key_store(number, listener, path)
            eventually(lambda: place.served_certificate(number, listener) == replaced.certificate_der)  # noqa: B023
        served = place.served_certificate(0, CLIENTS)
        stranger = place.certificates.authority.issue("stranger", names=CERTIFICATE_NAMES)
        with pytest.raises(ApiError):
            place.set_key_store(0, CLIENTS, stranger.write_pem(place.directory / "stranger.pem"))
        assert place.served_certificate(0, CLIENTS) == served
        assert all(map(is_served, before))


# -- users


def passwords(place: Place) -> None:
    """A new password: old sessions live on, and log in again by the new one alone; new logins need the new one."""
    user = a_new_name("user")
    place.add_user(user, "old")
    with ExitStack() as sessions:
        for number in place.numbers:
            renewing, stale, idle = (sessions.enter_context(place.logged_in(user, "old", number)) for _ in range(3))
            place.set_password(user, "new")
            place.await_login(user, "new", ErrorCode.NONE)
            place.await_login(user, "old", FAILED)
            assert all(map(is_served, (renewing, stale, idle)))
            assert log_in_again(renewing, user, "new") == ErrorCode.NONE
            assert is_served(renewing)
            assert log_in_again(stale, user, "old") == FAILED
            assert stale.is_closed_by_broker()
            assert is_served(idle)
            place.add_user(user, "old")


def removed_users(place: Place) -> None:
    """A user without credentials: no login, no login again, and the sessions from before live on."""
    user = a_new_name("user")
    place.add_user(user, "known")
    with ExitStack() as sessions:
        before = [sessions.enter_context(place.logged_in(user, "known", number)) for number in place.numbers]
        renewing = sessions.enter_context(place.logged_in(user, "known"))
        place.set_password(user, None)
        place.await_login(user, "known", FAILED)
        assert all(map(is_served, before))
        assert log_in_again(renewing, user, "known") == FAILED
        assert renewing.is_closed_by_broker()
        place.add_user(user, "known")  # of the same name, back again
        assert all(map(is_served, before))


# -- access control lists


class Reader:
    """An incremental fetch session of one partition. Kafka sends what has changed, and every error again."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._session_id = 0
        self._epoch = 0

    def error(self) -> int:
        """Fetch everything, and return the partition's error; 0 if it is not in the answer, which has no news then."""
        request = self._client.fetch_request(self._topic, 0)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        if self._epoch:
            request.topics = []
        answer = self._client.call(request, 12, FetchResponse)
        assert answer.error_code == ErrorCode.NONE
        self._session_id, self._epoch = answer.session_id, self._epoch + 1 if answer.session_id else 0
        found = [partition for topic in answer.responses for partition in topic.partitions]
        return found[0].error_code if found else ErrorCode.NONE


def entries(place: Place) -> None:
    """Entries added and removed: a moment later each request is decided anew, on connections that stay."""
    user, topic = a_new_name("user"), a_new_name("topic")
    place.add_user(user, "known")
    leader = _create_topic(place, topic)
    may_write, may_read = entry(user, WRITE, topic), entry(user, READ, topic)
    may_not_write = entry(user, WRITE, topic, permission=AclPermissionType.DENY)
    acknowledged: list[bytes] = []
    with place.logged_in(user, "known", leader) as writer, place.logged_in(user, "known", leader) as other:

        def write() -> int:
            value = b"%d" % len(acknowledged)
            error = writer.produce(topic, make_batch([value])).error_code
            if error == ErrorCode.NONE:
                acknowledged.append(value)
            return error

        reader = Reader(other, topic)
        assert write() == REFUSED
        assert reader.error() == REFUSED
        place.add_entries(may_write, may_read)
        eventually(lambda: write() == ErrorCode.NONE)
        eventually(lambda: reader.error() == ErrorCode.NONE)
        for _ in range(CACHED_DECISIONS):
            assert write() == ErrorCode.NONE
            assert reader.error() == ErrorCode.NONE
        place.add_entries(may_not_write)
        eventually(lambda: write() == REFUSED)
        assert reader.error() == ErrorCode.NONE
        assert writer.metadata(topic).error_code == ErrorCode.NONE
        place.remove_entries(may_not_write)
        eventually(lambda: write() == ErrorCode.NONE)
        place.remove_entries(may_read)
        eventually(lambda: reader.error() == REFUSED)
        assert write() == ErrorCode.NONE
        place.remove_entries(may_write)
        eventually(lambda: write() == REFUSED)
    assert _values(place, topic, leader) == acknowledged


def _create_topic(place: Place, topic: str) -> int:
    """Create a topic of one partition; its leader."""
    with place.admin() as admin:
        admin.create_topics([NewTopic(topic, 1, place.replication_factor)])
        leader = admin.describe_topics([topic])[topic].partitions[0].leader
    assert leader is not None
    return leader


def _values(place: Place, topic: str, leader: int) -> list[bytes | None]:
    """All values of a topic of one partition, as the operator reads them."""
    with RawClient(place.brokers[leader]) as client:
        return [record.value for record in fetched(client, topic, 0)]


# -- delegation tokens


def tokens(place: Place) -> None:
    """A token's life: sessions end when it would have ended at their login, whatever became of it since."""
    user = a_new_name("user")
    place.add_user(user, "known")
    config = ClientConfig(
        security_protocol="SASL_SSL",
        ssl_truststore_location=str(place.certificates.trust_pem),
        sasl_mechanism=SHA_512,
        sasl_username=user,
        sasl_password="known",
    )
    with Admin(place.servers(), config=config) as owner, ExitStack() as sessions:
        token, ends_ms, ending = _renewed_after_a_login(place, owner, sessions)
        name, password = token.information.token_id, token.password
        lasting = sessions.enter_context(place.logged_in(name, password, is_token=True))
        eventually(lambda: not is_served(ending))
        assert time.time() * 1000 > ends_ms - CLOCKS_DIFFER_BY_MS
        assert is_served(lasting)
        assert log_in_again(lasting, name, password, is_token=True) == ErrorCode.NONE
        owner.expire_delegation_token(token.hmac)
        place.await_login(name, password, FAILED, is_token=True)
        assert is_served(lasting)
        time.sleep(AGAIN_AFTER_SECONDS)
        assert log_in_again(lasting, name, password, is_token=True) == FAILED
        assert lasting.is_closed_by_broker()
        forgotten = owner.create_delegation_token(max_lifetime_ms=TOKEN_MS)
        login = (forgotten.information.token_id, forgotten.password)
        eventually(lambda: not any(_is_admitted(place, number, login) for number in place.numbers))


class _Renewed(NamedTuple):
    """A token that lasts, when it would have ended without its renewal, and a session from before."""

    token: DelegationToken
    ends_ms: int
    session: SaslRawClient


def _renewed_after_a_login(place: Place, owner: Admin, sessions: ExitStack) -> _Renewed:
    """Let a token end soon, log in by it, and renew it; all over again if the machine is too busy for its life."""
    short_ms = TOKEN_MS
    while short_ms < 64 * TOKEN_MS:
        token = owner.create_delegation_token()
        login = (token.information.token_id, token.password)
        place.await_login(*login, ErrorCode.NONE, is_token=True)
        ends_ms = owner.expire_delegation_token(token.hmac, short_ms)
        while time.time() * 1000 < ends_ms:
            client = sessions.enter_context(place.connect())
            answer = client.log_in(*login, SHA_256, is_token=True)
            if answer.error_code == ErrorCode.NONE and answer.session_lifetime_ms <= short_ms:
                with suppress(ApiError):  # it has ended
                    assert owner.renew_delegation_token(token.hmac, LONG_MS) > ends_ms
                    eventually(lambda: min(_sessions_ms(place, login)) > short_ms)  # noqa: B023
                    return _Renewed(token, ends_ms, client)
        short_ms *= 2
    raise AssertionError("no login by a token within its life")


def _sessions_ms(place: Place, login: tuple[str, str]) -> list[int]:
    return [place.session_ms(number, *login) for number in place.numbers]


def _is_admitted(place: Place, broker: int, login: tuple[str, str]) -> bool:
    """Whether a client by this token is served. Apache Kafka lets it log in until it has swept the token away."""
    with place.connect(broker) as client:
        return client.log_in(*login, SHA_256, is_token=True).error_code == ErrorCode.NONE and is_served(client)


RULES: tuple[Rule, ...] = (certificates, passwords, removed_users, entries, tokens)
