"""Our own consumer as a member of groups, against a real broker: alone, among its like, and beside confluent-kafka.

Consumers are polled in turn by one thread: `poll` never waits for the group.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import (
    Consumer,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
    WokenUp,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.consumer_group import SESSION_MS, Events, Group, produce
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import SERVER_PROPERTIES, Server
from tests.support.server_process import free_port
from tests.support.waiting import wait_until


@contextmanager
def group_of(server: Server, topic: str, partitions: int = 4, **settings: Any) -> Iterator[Group]:
    """A group for a new topic; its members are closed at the end."""
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    group = Group(server, topic, **settings)
    try:
        yield group
    finally:
        with ExitStack() as stack:
            for consumer in group.members:
                stack.callback(consumer.close)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_come_and_go_and_nothing_is_lost(server: Server, topic: str, assignor: str) -> None:
    with group_of(server, topic, partition_assignment_strategy=[assignor]) as group:
        sent = produce(server, topic, 200)
        first = group.member()
        group.poll_until(lambda: group.is_divided(4))
        second = group.member()
        group.poll_until(lambda: group.is_divided(2, 2))
        third = group.member()
        group.poll_until(lambda: sorted(map(len, group.partitions())) == [1, 1, 2])
        sent = sorted(sent + produce(server, topic, 200))
        group.close(first)
        assert group.size() == 2, "it left, and is not waited for"
        group.poll_until(lambda: group.is_divided(2, 2))
        assert sorted(group.partitions(second)[0] | group.partitions(third)[0]) == [0, 1, 2, 3]
        group.poll_until(lambda: len(group.records) >= 400)
        assert group.offsets() == sent, "every record once: commits before partitions are given away"


def test_eager_members_give_everything_up_and_hear_of_it(server: Server, topic: str) -> None:
    with group_of(server, topic, partition_assignment_strategy=["range"]) as group:
        events, others = Events(), Events()
        first = group.member(events)
        group.poll_until(lambda: group.is_divided(4))
        group.member(others)
        group.poll_until(lambda: group.is_divided(2, 2))
        assert events.heard == [("assigned", {0, 1, 2, 3}), ("revoked", {0, 1, 2, 3}), ("assigned", {0, 1})] or (
            events.heard == [("assigned", {0, 1, 2, 3}), ("revoked", {0, 1, 2, 3}), ("assigned", {2, 3})]
        )
        last = events.heard[-1][1]
        assert others.heard == [("assigned", {0, 1, 2, 3} - last)]
        first.unsubscribe()
        assert (first.assignment(), events.heard[-1]) == (set(), ("revoked", last))
        group.members.remove(first)
        group.poll_until(lambda: group.is_divided(4))
        first.close()


def test_cooperative_members_keep_reading_what_does_not_move(server: Server, topic: str) -> None:
    with group_of(server, topic, partition_assignment_strategy=["cooperative-sticky"]) as group:
        events, others = Events(), Events()
        group.member(events)
        group.poll_until(lambda: group.is_divided(4))
        group.member(others)
        sent: list[tuple[int, int]] = []
        while not group.is_divided(2, 2):
            unread = len(sent) - len(group.records)
            assert unread < 100, "what it keeps goes on"
            sent += produce(server, topic, 4)
            for consumer in group.members:
                group.records += consumer.poll(20)
        stays = group.partitions()[0]
        moved = {0, 1, 2, 3} - stays
        assert events.moves == [("assigned", {0, 1, 2, 3}), ("revoked", moved)]
        assert others.moves == [("assigned", moved)]
        group.poll_until(lambda: len(group.records) >= len(sent))
        assert group.offsets() == sorted(sent)


def test_a_member_goes_on_where_the_group_was(server: Server, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with group_of(server, topic, 1, enable_auto_commit=False) as group:
        produce(server, topic, 10, 1)
        first = group.member()
        group.poll_until(lambda: len(group.records) == 10)
        assert first.committed([place]) == {place: None}
        first.commit_sync({place: OffsetAndMetadata(4, "halfway")})
        assert first.committed([place]) == {place: OffsetAndMetadata(4, "halfway", -1)}
        group.close(first)
        group.records.clear()
        second = group.member()
        group.poll_until(lambda: len(group.records) == 6)
        assert group.offsets()[0] == (0, 4)
        outcomes: list[Exception | None] = []
        second.commit_async(callback=lambda offsets, error: outcomes.append(error))
        second.commit_async({place: OffsetAndMetadata(7)}, lambda offsets, error: outcomes.append(error))
        second.commit_sync()
        assert outcomes == [None, None], "earlier commits are answered first"
        (committed,) = second.committed([place]).values()
        assert committed is not None
        assert (committed.offset, committed.leader_epoch >= 0) == (10, True)


def test_a_static_member_restarts_without_a_rebalance(server: Server, topic: str) -> None:
    with group_of(server, topic) as group:
        events = Events()
        steady = group.member(events)
        restarting = group.member(group_instance_id="static")
        group.poll_until(lambda: group.is_divided(2, 2))
        before = steady.group_metadata(), list(events.heard), group.partitions(restarting)
        group.close(restarting)
        again = group.member(group_instance_id="static")
        group.poll_until(lambda: group.is_divided(2, 2))
        assert (steady.group_metadata(), events.heard, group.partitions(again)) == before
        assert again.group_metadata().group_instance_id == "static"
        fenced = group.settings | {"group_instance_id": "static"}
        with Consumer(group.address, **fenced) as thief:
            thief.subscribe([topic])
            group.members.append(thief)
            with pytest.raises(ApiError) as raised:
                group.poll_until(lambda: False)
            group.members.remove(thief)
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_another_thread_wakes_it_up(server: Server, topic: str) -> None:
    with group_of(server, topic) as group:
        consumer = group.member()
        for _ in range(2):  # while it joins, and when it has
            timer = threading.Timer(0.1, consumer.wakeup)
            timer.start()
            with pytest.raises(WokenUp):
                consumer.poll(20_000)
            timer.join()
            group.poll_until(lambda: group.is_divided(4))


def test_the_listener_may_seek_and_commit_and_fail(server: Server, topic: str) -> None:
    class Seeking(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            for each in partitions:
                consumer.seek(each, 3)
            consumer.pause(partitions[1:])

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            consumer.commit_sync()
            raise LookupError("mine")

    with group_of(server, topic, 2, enable_auto_commit=False) as group:
        produce(server, topic, 10, 2)
        consumer = group.member(Seeking())
        group.poll_until(lambda: len(group.records) == 2)
        assert group.offsets() == [(0, 3), (0, 4)]
        assert consumer.paused() == {TopicPartition(topic, 1)}
        group.members.remove(consumer)
        with pytest.raises(LookupError, match="mine"):
            consumer.close()
        observer = group.member()
        committed = observer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert [each.offset for each in committed.values() if each is not None] == [5, 3]


def test_the_group_survives_its_coordinator(tmp_path: Path, topic: str) -> None:
    properties = {**SERVER_PROPERTIES, "group.initial.rebalance.delay.ms": "0"}
    own_server = BarnabasProcess(tmp_path, properties, port=free_port())
    own_server.start()
    with closing(own_server), group_of(own_server, topic, 2, auto_commit_interval_ms=200) as group:
        events = Events()
        sent = produce(own_server, topic, 20, 2)
        group.member(events)
        group.member()
        group.poll_until(lambda: group.is_divided(1, 1) and len(group.records) == 20)
        committer = group.members[0]
        committer.commit_sync()
        own_server.kill()
        for _ in range(20):
            for consumer in group.members:
                group.records += consumer.poll(10)
        own_server.start()
        sent += produce(own_server, topic, 20, 2)
        group.poll_until(lambda: len(group.records) >= 40, 60)
        assert group.offsets() == sorted(sent), "they went on where they were"
        group.poll_until(lambda: group.is_divided(1, 1))
        committer.commit_sync()
        (mine,) = committer.assignment()
        committed = committer.committed([mine])[mine]
        assert committed is not None
        assert committed.offset == 20


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_beside_confluent_kafka_in_one_group(server: Server, topic: str, assignor: str) -> None:
    with group_of(server, topic, partition_assignment_strategy=[assignor]) as group:
        sent = produce(server, topic, 100)
        theirs: list[tuple[int, int]] = []
        ours = group.member()
        group.poll_until(lambda: group.is_divided(4))
        confluent = ConfluentConsumer(
            {
                "bootstrap.servers": group.address,
                "group.id": group.settings["group_id"],
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 200,
            }
        )
        confluent.subscribe([topic])

        def poll_theirs() -> int:
            message = confluent.poll(0.02)
            if message is not None and message.error() is None:
                theirs.append((message.partition() or 0, message.offset() or 0))
            return len(confluent.assignment())

        group.poll_until(lambda: (poll_theirs(), len(ours.assignment())) == (2, 2))
        sent = sorted(sent + produce(server, topic, 100))
        group.poll_until(lambda: (poll_theirs(), len(group.records) + len(theirs) >= len(sent))[1])
        assert sorted(group.offsets() + theirs) == sent
        group.close(ours)
        wait_until(lambda: poll_theirs() >= 4, 30)
        confluent.close()
