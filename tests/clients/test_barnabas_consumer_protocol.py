"""Our consumers with `group_protocol=consumer` (KIP-848) against a real broker, ours and Apache Kafka 4.

Consumers are polled in turn by one thread: `poll` never waits for the group. The broker's heartbeat interval is half a
second here, its session timeout six.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.clients.admin import Admin, NewPartitions, NewTopic
from barnabas.clients.consumer import (
    Consumer,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.consumer_group import Events, Group, produce
from tests.groups.conftest import PROPERTIES
from tests.support.apache_kafka_4 import ApacheKafka4, need_apache_kafka_4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import Server
from tests.support.server_process import free_port

SESSION_SECONDS = 6
APACHE_KAFKA_4 = "apache-kafka-4"


@pytest.fixture(params=["barnabas", pytest.param(APACHE_KAFKA_4, marks=pytest.mark.java)], scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server for the tests of this module."""
    directory = tmp_path_factory.mktemp(f"server-{request.param}")
    shared: Server
    if request.param == APACHE_KAFKA_4:
        need_apache_kafka_4()
        shared = ApacheKafka4(directory, PROPERTIES | {"group.consumer.assignment.interval.ms": "0"})
    else:
        shared = BarnabasProcess(directory, PROPERTIES, port=free_port())
    shared.start()
    yield shared
    shared.close()


class ConsumerGroup(Group):
    """Members of one group, of either protocol."""

    def __init__(self, server: Server, topic: str, **settings: object) -> None:
        super().__init__(server, topic, **settings)
        self.classic = self.settings
        self.settings = {
            name: value
            for name, value in self.classic.items()
            if name not in {"heartbeat_interval_ms", "session_timeout_ms"}
        } | {"group_protocol": "consumer"}

    def add(self, consumer: Consumer, listener: RebalanceListener | None = None) -> Consumer:
        consumer.subscribe([self.topic], listener=listener)
        self.members.append(consumer)
        return consumer

    def close_all(self) -> None:
        while self.members:
            self.members.pop().close()


@pytest.fixture
def group(server: Server, topic: str) -> Iterator[ConsumerGroup]:
    """A group for a new topic of four partitions; its members are closed at the end."""
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 4, 1)])
    made = ConsumerGroup(server, topic)
    yield made
    made.close_all()


def test_a_static_member_comes_back_to_its_partitions(server: Server, topic: str, group: ConsumerGroup) -> None:
    events = Events()
    steady = group.member(events)
    restarting = group.member(group_instance_id="static")
    group.poll_until(lambda: group.is_divided(2, 2))
    before = group.partitions(restarting), events.moves
    group.close(restarting)
    again = group.member(group_instance_id="static")
    group.poll_until(lambda: group.is_divided(2, 2))
    assert (group.partitions(again), events.moves) == before
    assert group.partitions(steady)[0].isdisjoint(group.partitions(again)[0])
    with Consumer(group.address, **group.settings, group_instance_id="static") as thief:
        thief.subscribe([topic])
        for _ in range(2):
            with pytest.raises(ApiError) as raised:
                thief.poll(20_000)
            assert raised.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert again.assignment()


def test_a_pattern_of_the_brokers_finds_topics_that_come_and_go(
    server: Server, topic: str, group: ConsumerGroup
) -> None:
    consumer = Consumer(group.address, **group.settings)
    consumer.subscribe(pattern=SubscriptionPattern(f"{topic}-.*"))
    group.members.append(consumer)
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{topic}-a", 1, 1)])
        group.poll_until(lambda: group.is_divided(1), 60)
        admin.create_topics([NewTopic(f"{topic}-b", 2, 1), NewTopic(f"not-{topic}-b", 2, 1)])
        sent = produce(server, f"{topic}-b", 20, 2)
        # The broker matches an expression again after a while, at most every ten seconds.
        group.poll_until(lambda: group.is_divided(3) and len(group.records) >= 20, 60)
        assert group.offsets() == sent
        assert consumer.subscription() == set()
        admin.delete_topics([f"{topic}-a"])
        group.poll_until(lambda: group.is_divided(2), 60)


def test_new_partitions_and_new_subscriptions(server: Server, topic: str, group: ConsumerGroup) -> None:
    first = group.member()
    group.member()
    group.poll_until(lambda: group.is_divided(2, 2))
    with Admin(server.bootstrap_servers) as admin:
        admin.create_partitions({topic: NewPartitions(6)})
        group.poll_until(lambda: group.is_divided(3, 3))
        admin.create_topics([NewTopic(f"{topic}-more", 1, 1)])
    first.subscribe([topic, f"{topic}-more"])
    group.poll_until(lambda: TopicPartition(f"{topic}-more", 0) in first.assignment())


def test_heartbeats_go_on_while_the_user_works(server: Server, topic: str, group: ConsumerGroup) -> None:
    busy, events = group.member(), Events()
    other = group.member(events)
    group.poll_until(lambda: group.is_divided(2, 2))
    deadline = time.monotonic() + SESSION_SECONDS + 3
    while time.monotonic() < deadline:
        other.poll(100)
    assert events.moves == [("assigned", group.partitions(other)[0])]
    busy.commit_sync()


def test_a_group_moves_from_the_classic_protocol_and_back(server: Server, topic: str, group: ConsumerGroup) -> None:
    sent = produce(server, topic, 100)
    for _ in range(2):
        group.add(Consumer(group.address, **group.classic, partition_assignment_strategy=["cooperative-sticky"]))
    group.poll_until(lambda: group.is_divided(2, 2))
    for protocol in ("consumer", "classic"):
        for _ in range(2):
            settings = group.settings if protocol == "consumer" else group.classic
            group.add(Consumer(group.address, **settings))
            group.poll_until(lambda: sorted(map(len, group.partitions())) == [1, 1, 2], 60)
            group.close(group.members[0])
            group.poll_until(lambda: sorted(map(len, group.partitions())) == [2, 2], 60)
        sent = sorted(sent + produce(server, topic, 100))
    group.poll_until(lambda: len(group.records) >= 300)
    assert group.offsets() == sent
