"""Groups of our consumers, of both protocols: sharing, commits, listeners, patterns, static members, ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewPartitions
from barnabas.clients.consumer import (
    CommitFailed,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.rpc.client_request import UnsupportedVersion
from tests.clients.consumer_group import Events
from tests.clients.each_broker.conftest import create_topic
from tests.clients.each_broker.each_broker import APACHE_KAFKA, PATIENCE_SECONDS, SESSION_SECONDS, EachBroker


class Members:
    """The members of one group, polled in turn by one thread, and what they read."""

    def __init__(self, broker: EachBroker, topic: str, protocol: str) -> None:
        self.broker = broker
        self.topic = topic
        self.settings: dict[str, Any] = {
            "group_id": topic,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 500,
            "retry_backoff_ms": 20,
        }
        if protocol == "classic":
            self.settings |= {"session_timeout_ms": SESSION_SECONDS * 1000, "heartbeat_interval_ms": 200}
        self.running: list[Consumer] = []
        self.records: list[ConsumerRecord] = []

    def make(self, **settings: Any) -> Consumer:
        return Consumer(self.broker.bootstrap_servers, **{**self.settings, **settings})

    def add(self, listener: RebalanceListener | None = None, pattern: str | None = None, **settings: Any) -> Consumer:
        consumer = self.make(**settings)
        consumer.subscribe([] if pattern else [self.topic], pattern=pattern, listener=listener)
        self.running.append(consumer)
        return consumer

    def close(self, consumer: Consumer, **how: Any) -> None:
        self.running.remove(consumer)
        consumer.close(**how)

    def poll_until(self, condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [consumer.assignment() for consumer in self.running]
            for consumer in self.running:
                self.records += consumer.poll(20)

    def sizes(self) -> list[int]:
        return sorted(len(consumer.assignment()) for consumer in self.running)

    def is_settled(self, *sizes: int) -> bool:
        """Whether the partitions are divided so, and no member is in a rebalance that the others have ended."""
        generations = {consumer.group_metadata().generation_id for consumer in self.running}
        return self.sizes() == list(sizes) and len(generations) == 1

    def places(self) -> list[tuple[int, int]]:
        return sorted((record.partition, record.offset) for record in self.records)


@pytest.fixture(params=["classic", "consumer"])
def members(request: pytest.FixtureRequest, broker: EachBroker, topic: str) -> Iterator[Members]:
    """A group of either protocol for a new topic of three partitions. None of its members is left behind."""
    if request.param == "consumer":
        broker.need_consumer_protocol()
    made = Members(broker, topic, request.param)
    yield made
    for consumer in made.running:
        consumer.close()


def fill(broker: EachBroker, topic: str, count: int, partitions: int = 3) -> list[tuple[int, int]]:
    """Send so many records to the partitions in turn, and return their places."""
    with Producer(broker.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"v", partition=number % partitions) for number in range(count)]
        return sorted((each.result(30).partition, each.result(30).offset) for each in futures)


def offset_of(consumer: Consumer, place: TopicPartition) -> int | None:
    found = consumer.committed([place])[place]
    return None if found is None else found.offset


def test_members_come_and_go(broker: EachBroker, topic: str, members: Members, admin: Admin) -> None:
    sent = fill(broker, topic, 60)
    first = members.add()
    members.poll_until(lambda: members.sizes() == [3])
    second = members.add()
    members.poll_until(lambda: members.sizes() == [1, 2])
    third = members.add()
    members.poll_until(lambda: members.sizes() == [1, 1, 1])
    sent = sorted(sent + fill(broker, topic, 60))
    members.poll_until(lambda: len(members.records) >= 120)
    members.close(first)
    assert len(admin.describe_groups([topic])[topic].members) == 2, "it has left, and is not waited for"
    members.poll_until(lambda: members.sizes() == [1, 2])
    assert second.assignment().isdisjoint(third.assignment())
    assert members.places() == sent, "each record once: positions are committed before partitions move"


def test_who_dies_is_replaced(broker: EachBroker, topic: str, members: Members) -> None:
    dying = members.add()
    members.add()
    members.poll_until(lambda: members.sizes() == [1, 2])
    members.close(dying, leave_group=False)
    members.poll_until(lambda: members.sizes() == [3])
    sent = fill(broker, topic, 30)
    members.poll_until(lambda: len(members.records) >= 30)
    assert members.places() == sent


def test_commits(broker: EachBroker, topic: str, members: Members) -> None:
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(broker, topic, 30)
    first = members.add(enable_auto_commit=False)
    members.poll_until(lambda: len(members.records) == 30)
    assert first.committed([place, other]) == {place: None, other: None}
    first.commit_sync({place: OffsetAndMetadata(4, "halfway")})
    found = first.committed([place, other])
    assert found == {place: OffsetAndMetadata(4, "halfway"), other: None}
    outcomes: list[tuple[dict[TopicPartition, OffsetAndMetadata], Exception | None]] = []
    first.commit_async({other: OffsetAndMetadata(2)}, lambda offsets, error: outcomes.append((dict(offsets), error)))
    members.poll_until(lambda: outcomes)
    assert outcomes == [({other: OffsetAndMetadata(2)}, None)]
    with pytest.raises(ValueError, match="-1"):
        first.commit_sync({place: OffsetAndMetadata(-1)})
    members.close(first)
    members.records.clear()
    second = members.add(enable_auto_commit=False)
    members.poll_until(lambda: len(members.records) == 6 + 8 + 10)
    assert members.places()[0] == (0, 4)
    second.commit_sync()
    assert [offset_of(second, TopicPartition(topic, each)) for each in range(3)] == [10, 10, 10]


def test_automatic_commits(broker: EachBroker, topic: str, members: Members) -> None:
    place = TopicPartition(topic, 0)
    fill(broker, topic, 30)
    first = members.add(auto_commit_interval_ms=200)
    members.poll_until(lambda: len(members.records) == 30)
    members.poll_until(lambda: offset_of(first, place) == 10)
    fill(broker, topic, 30)
    members.poll_until(lambda: len(members.records) == 60)
    members.close(first)
    second = members.add()
    members.poll_until(lambda: members.sizes() == [3])
    assert offset_of(second, place) == 20, "the close commits what was returned"
    assert second.poll(300) == []


def test_commits_without_membership(broker: EachBroker, topic: str, members: Members) -> None:
    place = TopicPartition(topic, 0)
    fill(broker, topic, 3)
    for expected in (1, 0):
        with members.make() as consumer:
            consumer.assign([place])
            records: list[ConsumerRecord] = []
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(records) < expected:
                assert time.monotonic() < deadline
                records += consumer.poll(100)
            assert consumer.position(place) == 1
    members.add()
    members.poll_until(lambda: members.sizes() == [3])
    with members.make() as stranger:
        stranger.assign([place])
        # The group has members, and this consumer is none of them.
        with pytest.raises((CommitFailed, ApiError)) as raised:
            stranger.commit_sync({place: OffsetAndMetadata(0)})
        if isinstance(raised.value, ApiError):
            assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        stranger.unsubscribe()


def test_listeners_hear_of_each_change(broker: EachBroker, topic: str, members: Members) -> None:
    events, others = Events(), Events()
    strategy: dict[str, Any] = (
        {}
        if members.settings["group_protocol"] == "consumer"
        else {"partition_assignment_strategy": ["cooperative-sticky"]}
    )
    first = members.add(events, **strategy)
    members.poll_until(lambda: members.sizes() == [3])
    second = members.add(others, **strategy)
    members.poll_until(lambda: members.is_settled(1, 2))
    moved = {each.partition for each in second.assignment()}
    assert events.moves == [("assigned", {0, 1, 2}), ("revoked", moved)]
    assert others.moves == [("assigned", moved)]
    kept = {each.partition for each in first.assignment()}
    first.unsubscribe()
    assert (first.assignment(), first.subscription(), events.moves[-1]) == (set(), set(), ("revoked", kept))
    members.running.remove(first)
    members.poll_until(lambda: members.sizes() == [3])
    first.subscribe([topic], listener=events)
    members.running.append(first)
    members.poll_until(lambda: members.sizes() == [1, 2])
    assert events.moves[-1] == ("assigned", {each.partition for each in first.assignment()})


def test_a_listener_may_seek_commit_and_close(broker: EachBroker, topic: str, members: Members, admin: Admin) -> None:
    class Seeking(Events):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            for each in partitions:
                consumer.seek(each, 8)

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            consumer.commit_sync()
            consumer.close()

    fill(broker, topic, 30)
    events = Seeking()
    consumer = members.add(events, enable_auto_commit=False)
    members.poll_until(lambda: len(members.records) == 6)
    assert {offset for _, offset in members.places()} == {8, 9}
    members.running.remove(consumer)
    began = time.monotonic()
    consumer.unsubscribe()
    assert time.monotonic() - began < SESSION_SECONDS
    assert events.moves == [("assigned", {0, 1, 2}), ("revoked", {0, 1, 2})]
    assert not admin.describe_groups([topic])[topic].members, "the closed member is not waited for"
    second = members.add()
    members.poll_until(lambda: members.sizes() == [3])
    assert offset_of(second, TopicPartition(topic, 0)) == 10


def test_patterns(broker: EachBroker, topic: str, members: Members, admin: Admin) -> None:
    consumer = members.add(pattern=f"{topic}(-.*)?")
    members.poll_until(lambda: members.sizes() == [3])
    assert consumer.subscription() == {topic}
    create_topic(admin, f"{topic}-more", 2)
    create_topic(admin, f"not-{topic}", 1)
    members.poll_until(lambda: members.sizes() == [5], 60)
    assert consumer.subscription() == {topic, f"{topic}-more"}
    admin.delete_topics([f"{topic}-more"])
    members.poll_until(lambda: members.sizes() == [3], 60)


def test_static_members(broker: EachBroker, topic: str, members: Members) -> None:
    events = Events()
    members.add(events)
    restarting = members.add(group_instance_id="me")
    members.poll_until(lambda: members.is_settled(1, 2))
    before = restarting.assignment(), list(events.moves)
    members.close(restarting)
    again = members.add(group_instance_id="me")
    members.poll_until(lambda: members.sizes() == [1, 2])
    assert (again.assignment(), events.moves) == before, "no rebalance"
    assert again.group_metadata().group_instance_id == "me"


def test_new_partitions_are_divided(broker: EachBroker, topic: str, members: Members, admin: Admin) -> None:
    members.add()
    members.add()
    members.poll_until(lambda: members.sizes() == [1, 2])
    admin.create_partitions({topic: NewPartitions(4)})
    members.poll_until(lambda: members.sizes() == [2, 2], 60)


def test_who_does_not_poll_is_removed(broker: EachBroker, topic: str, members: Members) -> None:
    events = Events()
    sleepy = members.add(events, max_poll_interval_ms=1_500, enable_auto_commit=False)
    members.add()
    members.poll_until(lambda: members.sizes() == [1, 2])
    members.running.remove(sleepy)
    members.poll_until(lambda: members.sizes() == [3])
    with pytest.raises(CommitFailed):
        sleepy.commit_sync({TopicPartition(topic, 0): OffsetAndMetadata(1)})
    members.running.append(sleepy)
    members.poll_until(lambda: members.sizes() == [1, 2])
    assert [kind for kind, _ in events.moves][-2:] == ["lost", "assigned"]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_classic_assignors(broker: EachBroker, topic: str, assignor: str) -> None:
    members = Members(broker, topic, "classic")
    sent = fill(broker, topic, 30)
    try:
        for _ in range(3):
            members.add(partition_assignment_strategy=[assignor])
        members.poll_until(lambda: members.sizes() == [1, 1, 1] and len(members.records) >= 30)
        assert members.places() == sent
    finally:
        for consumer in members.running:
            consumer.close()


def test_a_broker_without_the_consumer_protocol_says_so(broker: EachBroker, topic: str) -> None:
    if broker.name != APACHE_KAFKA:
        pytest.skip(f"{broker.name} has groups of the consumer protocol")
    members = Members(broker, topic, "consumer")
    members.add()
    with pytest.raises(UnsupportedVersion, match="group_protocol=classic"):
        members.poll_until(lambda: False)
    members.running[0].close()
