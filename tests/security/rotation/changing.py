"""Clients whose own security changes while they write: password, entries of access control lists, token, user.

Called by the campaign, on its thread, one change after another. Each client has a topic of its own, named after its
user. What the client notices is asserted here; what it was told was written is judged by the campaign at the end.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.clients.admin import AclOperation, AclPermissionType, Admin, DelegationToken, NewTopic, ResourceType
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.chaos.ledger import Ledger
from tests.security.rotation.load import LIBRARIES, PARTITIONS, LoadWriter, Login, RenewableConfluentClient, ours
from tests.security.rotation.place import CLIENTS, SHORT, Place, entry, eventually
from tests.security.rotation.rules import a_new_name

WRITE, DENY = AclOperation.WRITE, AclPermissionType.DENY
TOKEN_MS = 6_000
"""The life of a token; four times as long each time that a client has logged in by it too late."""
LONGEST_TOKEN_MS = 400_000
LONG_MS = 3_600_000
FINISHED_BY_A_REJECTION = ("confluent-kafka", "kafka-python")
"""The libraries whose idempotent producers do not outlive a rejected record.

kafka-python takes it for a fatal error, and sends nothing any more. librdkafka (2.16) takes a new epoch, and may then
send sequence 0 of it twice, the second time with other records: when it learns of the topic again, it restores its old
state ("restored PID... that was saved upon removal"). OUT_OF_ORDER_SEQUENCE_NUMBER follows, on Apache Kafka 3.9 too,
and librdkafka takes that for fatal.
"""
SHORT_PATIENCE_MS = 4_000
"""Of a writer that is about to be disconnected for good: its records fail after this time."""


class _ShortToken(NamedTuple):
    """A token and its end, in milliseconds since 1970."""

    token: DelegationToken
    ends_ms: int


class ChangingClients:
    """The clients of all changes. ledgers: what they have written."""

    def __init__(self, place: Place, session_ms: int, seed: int) -> None:
        """session_ms: how long a session of SHORT lasts."""
        self.ledgers: list[Ledger] = []
        self._place = place
        self._session_ms = session_ms
        self._seed = seed
        self._running: list[LoadWriter] = []

    def abandon(self) -> None:
        """End the clients that run, whatever becomes of their records."""
        while self._running:
            self._running.pop().abandon()

    def passwords(self) -> None:
        """Give librdkafka its new password, with which it goes on; ours ends with its session, and starts again."""
        renewed, restarted = self._new_user(), self._new_user()
        confluent = self._start("confluent-kafka", self._login(renewed, "old", SHORT), self._new_ledger(renewed))
        outdated_login = self._login(restarted, "old", SHORT)._replace(patience_ms=SHORT_PATIENCE_MS)
        outdated = self._start("barnabas", outdated_login, self._new_ledger(restarted))
        self._await_more(confluent, outdated)
        for user in (renewed, restarted):
            self._place.set_password(user, "new")
            self._place.await_login(user, "new", ErrorCode.NONE)
        assert isinstance(confluent.client, RenewableConfluentClient)
        confluent.client.set_password(renewed, "new")
        eventually(lambda: outdated.failures)
        self._stop(outdated)
        successor = self._start("barnabas", self._login(restarted, "new", SHORT), outdated.ledger)
        time.sleep(2 * self._session_ms / 1000)  # in which librdkafka and the successor log in again
        self._await_more(confluent, successor)
        assert not confluent.failures
        self._stop(confluent, successor)

    def entries(self) -> None:
        """Deny what is allowed: deliveries fail. Remove the denial: the same clients go on, where the library can."""
        writers: dict[str, LoadWriter] = {}
        users: dict[str, str] = {}
        denials = []
        for library in LIBRARIES:
            user = users[library] = self._new_user()
            ledger = self._new_ledger(user)
            writers[library] = self._start(library, self._login(user, "old"), ledger)
            denials.append(entry(user, WRITE, ledger.topic, permission=DENY))
        self._await_more(*writers.values())
        self._place.add_entries(*denials)
        for writer in writers.values():
            eventually(lambda: writer.failures)  # noqa: B023 - called before the next turn
        for library in FINISHED_BY_A_REJECTION:
            self._stop(writers[library])
        self._place.remove_entries(*denials)
        for library in FINISHED_BY_A_REJECTION:
            writers[library] = self._start(library, self._login(users[library], "old"), writers[library].ledger)
        self._await_more(*writers.values())
        self._stop(*writers.values())

    def tokens(self) -> None:
        """Two clients by token: that whose token is renewed goes on, that whose token ends is disconnected with it."""
        owner = self._new_user()
        with Admin(self._place.servers(), config=ClientConfig(**ours(self._login(owner, "old")))) as admin:
            life_ms = TOKEN_MS
            while not self._lives_of_tokens(admin, owner, life_ms):
                life_ms *= 4
                assert life_ms <= LONGEST_TOKEN_MS, "no client is quick enough for its token"

    def _lives_of_tokens(self, admin: Admin, owner: str, life_ms: int) -> bool:
        """Return False if the machine is too slow for tokens of this life: then they have shown nothing."""
        ledgers = [self._new_ledger(owner) for _ in range(2)]
        renewed, ending = self._short_token(admin, life_ms), self._short_token(admin, life_ms)
        if renewed is None or ending is None:
            return False
        going_on = self._start("barnabas", self._login_by(renewed.token), ledgers[0])
        ending_login = self._login_by(ending.token)._replace(patience_ms=SHORT_PATIENCE_MS)
        disconnected = self._start("barnabas", ending_login, ledgers[1])

        def have_logged_in() -> bool:
            return all(each.ledger.acknowledged for each in (going_on, disconnected))

        eventually(lambda: have_logged_in() or time.time() * 1000 > ending.ends_ms)
        try:
            admin.renew_delegation_token(renewed.token.hmac, LONG_MS)
            is_quick = have_logged_in()
        except ApiError:  # it has ended
            is_quick = False
        if not is_quick:
            self.abandon()
            return False
        eventually(lambda: disconnected.failures)
        # Its token is the younger one, so the other would have ended, too.
        self._await_more(going_on)
        assert not going_on.failures
        self._stop(going_on, disconnected)
        return True

    def _short_token(self, admin: Admin, life_ms: int) -> _ShortToken | None:
        """Return a token that ends soon, which every broker knows; None if it has ended before they do."""
        token = admin.create_delegation_token()
        login = (token.information.token_id, token.password)
        self._place.await_login(*login, ErrorCode.NONE, is_token=True)
        ends_ms = admin.expire_delegation_token(token.hmac, life_ms)

        def session_ms() -> list[int]:
            return [self._place.session_ms(number, *login) for number in self._place.numbers]

        eventually(lambda: max(session_ms()) <= life_ms)
        return _ShortToken(token, ends_ms) if min(session_ms()) > 0 else None

    def users(self) -> None:
        """Remove a user: the client goes on, because its session does not end."""
        user = self._new_user()
        writer = self._start("confluent-kafka", self._login(user, "old"), self._new_ledger(user))
        self._await_more(writer)
        self._place.set_password(user, None)
        self._place.await_login(user, "old", ErrorCode.SASL_AUTHENTICATION_FAILED)
        self._await_more(writer)
        assert not writer.failures
        self._stop(writer)

    # -- parts

    def _new_user(self) -> str:
        """Add a user with the password "old".

        An idempotent producer may ask for a new producer id after a rejected record (librdkafka gives up for good if it
        gets none). A user whom an entry denies Write gets one only by IdempotentWrite.
        """
        user = a_new_name("changing")
        self._place.add_user(user, "old")
        self._place.add_entries(entry(user, AclOperation.IDEMPOTENT_WRITE, "kafka-cluster", ResourceType.CLUSTER))
        return user

    def _new_ledger(self, user: str) -> Ledger:
        """Create a topic that a user may write to."""
        ledger = Ledger(a_new_name("changing-topic"), PARTITIONS)
        self.ledgers.append(ledger)
        self._place.add_entries(entry(user, WRITE, ledger.topic))
        with self._place.admin() as admin:
            admin.create_topics([NewTopic(ledger.topic, PARTITIONS, self._place.replication_factor)])
        return ledger

    def _login(self, user: str, password: str, listener: str = CLIENTS) -> Login:
        return Login(self._place.servers(listener), str(self._place.certificates.trust_pem), user, password)

    def _login_by(self, token: DelegationToken) -> Login:
        return self._login(token.information.token_id, token.password)._replace(is_token=True)

    def _start(self, library: str, login: Login, ledger: Ledger) -> LoadWriter:
        self._seed += 1
        writer = LoadWriter(LIBRARIES[library], login, ledger, self._seed)
        self._running.append(writer)
        writer.start()
        return writer

    def _await_more(self, *writers: LoadWriter) -> None:
        """Wait until each writer has been told of records that it has written since."""
        for writer in writers:
            before = writer.ledger.acknowledged
            eventually(lambda: writer.ledger.acknowledged > before)  # noqa: B023 - called before the next turn
            writer.check()

    def _stop(self, *writers: LoadWriter) -> None:
        for writer in writers:
            writer.stop()
            self._running.remove(writer)
