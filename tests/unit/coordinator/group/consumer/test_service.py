"""The service of consumer groups: what it leaves to threads that may take their time."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.assignors.server_assignors import assignors_named
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer import consumer_group_service as service_module
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import HeartbeatAnswer, HeartbeatTerms
from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService
from barnabas.coordinator.group.consumer.topics.regex_resolver import TopicRegexResolver
from barnabas.coordinator.group.group import Group
from barnabas.protocol.errors import ErrorCode
from tests.unit.coordinator.group.offset_harness import GROUP, GroupBroker


class NoClassicGroups:
    def replaced(self, group: Group, old: ClassicGroup) -> None:
        assert not old.has_members

    def begin_sessions(self, group: Group, reason: str | None) -> None:
        raise AssertionError


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker()
    broker.announce("foo", "bar")
    return broker


@pytest.fixture
def service(broker: GroupBroker) -> ConsumerGroupService:
    environment = broker.environment
    resolver = TopicRegexResolver(environment.clock, environment.scheduler, lambda: environment.metadata.image)
    return ConsumerGroupService(
        environment, assignors_named(("uniform", "range")), resolver, lambda regex: None, NoClassicGroups()
    )


def joining(*topics: str) -> HeartbeatTerms:
    return HeartbeatTerms(GROUP, "a", 0, rebalance_timeout_ms=5000, subscribed_topic_names=topics, owned={})


def ask(service: ConsumerGroupService, terms: HeartbeatTerms) -> HeartbeatAnswer:
    answers: list[HeartbeatAnswer] = []
    service.heartbeat(terms, answers.append)
    (answer,) = answers
    assert answer.error is ErrorCode.NONE, answer
    return answer


def quietly(service: ConsumerGroupService, terms: HeartbeatTerms) -> HeartbeatAnswer | None:
    interval_ms = service.quiet_heartbeat(
        terms.group_id, terms.member_id, terms.member_epoch, terms.instance_id, terms.client_id, terms.client_host
    )
    if interval_ms is None:
        return None
    return HeartbeatAnswer(ErrorCode.NONE, None, terms.member_id, terms.member_epoch, interval_ms)


@pytest.mark.interpreted  # a compiled module keeps its own constants
def test_many_partitions_are_not_assigned_on_a_network_thread(
    broker: GroupBroker, service: ConsumerGroupService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "MANY_PARTITIONS", 3)
    assert not service.may_take_long(joining("foo"))
    assert service.may_take_long(joining("foo", "bar"))
    monkeypatch.setattr(service_module, "MANY_PARTITIONS", 1)
    quiet = HeartbeatTerms(GROUP, "a", ask(service, joining("foo", "bar")).member_epoch)
    assert not service.may_take_long(quiet)
    broker.announce("other")
    assert service.may_take_long(quiet), "it may be that its topics have changed"
    ask(service, quiet)
    assert not service.may_take_long(quiet)


def test_a_heartbeat_without_news_is_answered_as_any_other(broker: GroupBroker, service: ConsumerGroupService) -> None:
    quiet = HeartbeatTerms(GROUP, "a", ask(service, joining("foo")).member_epoch)
    expected = ask(service, quiet)
    written = len(broker.records())
    group = broker.table.get(GROUP)
    assert group is not None
    assert isinstance(group.membership, ConsumerGroup)
    (deadline,) = group.membership.deadlines.values()
    broker.clock.advance(1000)
    before_ns = deadline.deadline_ns
    assert quietly(service, quiet) == expected
    assert deadline.deadline_ns == before_ns + 1_000_000_000
    assert len(broker.records()) == written

    for news in (
        quiet._replace(group_id="none"),
        quiet._replace(member_id="b"),
        quiet._replace(member_epoch=quiet.member_epoch + 1),
        quiet._replace(member_epoch=0),
        quiet._replace(member_epoch=-1),
        quiet._replace(instance_id="i"),
        quiet._replace(client_id="c"),
        quiet._replace(client_host="/h"),
    ):
        assert quietly(service, news) is None
    broker.announce("other")
    assert quietly(service, quiet) is None, "it may be that its topics have changed"
    assert ask(service, quiet) == quietly(service, quiet) == expected


def test_a_member_with_something_to_learn_is_not_quiet(broker: GroupBroker, service: ConsumerGroupService) -> None:
    epoch = ask(service, joining("foo")).member_epoch
    ask(service, joining("foo")._replace(member_id="b"))
    quiet = HeartbeatTerms(GROUP, "a", epoch)
    assert quietly(service, quiet) is None
    assert ask(service, quiet).assignment is not None
