"""Access control lists of two brokers with one store: changes by each, at once, and by notices."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from barnabas.metadata.acl_admin import MAX_RETRIES, AclAdmin
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.security.acl.acl_authorizer import AclAuthorizer
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, Action, PatternType, ResourceType
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.acl_znodes import VersionedAcls
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

TOPIC = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIX = ResourcePattern(ResourceType.TOPIC, "t", PatternType.PREFIXED)
EVERYTHING = AclBindingFilter()


def binding(principal: str = "User:alice", pattern: ResourcePattern = TOPIC) -> AclBinding:
    return AclBinding(pattern, AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW))


class Broker:
    """A broker's authorizer and the keeper of its lists, loaded."""

    def __init__(self, store: InlineStore, clock: MockClock) -> None:
        self._store = store
        self.zk_client = KafkaZkClient(store.new_session(), clock)
        self.authorizer = AclAuthorizer(frozenset(), allow_if_none=False)
        self.scheduler = MockScheduler(clock)
        self.admin = AclAdmin(self.zk_client, self.authorizer, self.scheduler, clock)
        self.admin.start()

    def may_read(self, principal: str = "User:alice") -> bool:
        client = SimpleNamespace(principal=principal, client_address="127.0.0.1")
        return self.authorizer.authorize(client, [Action(AclOperation.READ, TOPIC[0], "t")], ApiKey.FETCH)[0]


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture
def store(clock: MockClock) -> InlineStore:
    return InlineStore(clock)


@pytest.fixture
def brokers(store: InlineStore, clock: MockClock) -> tuple[Broker, Broker]:
    return Broker(store, clock), Broker(store, clock)


def test_a_change_is_in_force_when_it_is_answered_and_elsewhere_with_the_notice(
    store: InlineStore, clock: MockClock, brokers: tuple[Broker, Broker]
) -> None:
    one, other = brokers
    assert one.admin.create([binding(), binding(pattern=PREFIX)]) == [None, None]
    assert (one.may_read(), other.may_read()) == (True, False)
    store.deliver()
    for each in brokers:
        each.scheduler.tick()
    assert (one.may_read(), other.may_read()) == (True, True)
    assert other.admin.describe(EVERYTHING) == [binding(), binding(pattern=PREFIX)]
    assert Broker(store, clock).may_read(), "a broker that starts later loads them"


def test_changes_at_once_are_all_kept(brokers: tuple[Broker, Broker]) -> None:
    """No notice has been read: each broker changes the list from a version that is not the latest."""
    one, other = brokers
    for number in range(3):
        assert one.admin.create([binding(f"User:one{number}")]) == [None]
        assert other.admin.create([binding(f"User:other{number}")]) == [None]
    expected = {f"User:{who}{number}" for who in ("one", "other") for number in range(3)}
    assert {each.entry.principal for each in other.admin.describe(EVERYTHING)} == expected
    deleted = one.admin.delete([AclBindingFilter(entry=AccessControlEntryFilter("User:other2"))])
    assert deleted == [[]], "one has not read of it, and its filter names no pattern, as in Kafka"
    named = AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "t"), AccessControlEntryFilter("User:other2"))
    assert one.admin.create([binding("User:one3")]) == [None]
    assert [[each.binding.entry.principal for each in found] for found in one.admin.delete([named])] == [
        ["User:other2"]
    ]
    kept = (expected | {"User:one3"}) - {"User:other2"}
    assert other.zk_client.acls.read(TOPIC).entries == {binding(who).entry for who in kept}


def test_a_writer_that_always_comes_second_gives_up(
    brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []
    monkeypatch.setattr(brokers[0].zk_client.acls, "write", lambda *written: attempts.append(written))
    (error,) = brokers[0].admin.create([binding()])
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(attempts) == MAX_RETRIES + 1
    assert not brokers[0].may_read()


def test_wrong_bindings_fail_alone(brokers: tuple[Broker, Broker]) -> None:
    admin = brokers[0].admin
    slash = binding(pattern=TOPIC._replace(name="a/b"))
    unknown = binding(pattern=TOPIC._replace(pattern_type=PatternType.UNKNOWN))
    untyped = binding("alice", TOPIC._replace(name="other"))
    errors = admin.create([slash, binding(), unknown, untyped, binding("User:bob", untyped.pattern)])
    codes = [ErrorCode.NONE if error is None else error.code for error in errors]
    unexpected = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST, unexpected, unexpected]
    assert admin.describe(EVERYTHING) == [binding()]


def test_deleting_by_several_filters(brokers: tuple[Broker, Broker]) -> None:
    admin = brokers[0].admin
    admin.create([binding("User:a"), binding("User:b"), binding("User:b", PREFIX)])
    literals = AclBindingFilter(ResourcePatternFilter(pattern_type=PatternType.LITERAL))
    bobs = AclBindingFilter(entry=AccessControlEntryFilter("User:b"))
    nobodys = AclBindingFilter(entry=AccessControlEntryFilter("User:c"))
    deleted = admin.delete([nobodys, literals, bobs])
    assert [[(each.binding, each.error) for each in found] for found in deleted] == [
        [],
        [(binding("User:a"), None), (binding("User:b"), None)],
        [(binding("User:b", PREFIX), None)],
    ], "a binding belongs to the first filter that selects it"
    assert admin.describe(EVERYTHING) == []
    assert brokers[0].zk_client.access.children("/kafka-acl/Topic") == [], "a pattern without entries has no znode"


def test_a_deletion_that_cannot_be_written_says_so_and_keeps_the_entry(
    brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = brokers[0]
    one.admin.create([binding()])
    monkeypatch.setattr(one.zk_client.acls, "write", lambda *_: None)
    ((deleted,),) = one.admin.delete([EVERYTHING])
    assert deleted.binding == binding()
    assert deleted.error is not None
    assert deleted.error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert one.may_read()
    assert isinstance(one.zk_client.acls.read(TOPIC), VersionedAcls)


def test_changes_that_are_put_off_are_made_in_order_by_one_task(brokers: tuple[Broker, Broker]) -> None:
    one, _ = brokers
    before = len(one.scheduler.waiting)
    created = one.admin.create_soon([binding()])
    deleted = one.admin.delete_soon([EVERYTHING])
    assert not created.done()
    assert len(one.scheduler.waiting) == before + 1
    one.scheduler.tick()
    assert created.result(0) == [None]
    assert [[each.binding for each in found] for found in deleted.result(0)] == [[binding()]]
    assert not one.may_read()


def test_a_defect_in_a_change_that_is_put_off_reaches_its_future_and_no_other(
    brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = brokers
    defect = RuntimeError("a defect")

    def fail(_filters: object) -> None:
        raise defect

    monkeypatch.setattr(one.admin, "delete", fail)
    deleted, created = one.admin.delete_soon([EVERYTHING]), one.admin.create_soon([binding()])
    one.scheduler.tick()
    assert deleted.exception(0) is defect
    assert created.result(0) == [None]
