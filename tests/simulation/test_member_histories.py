"""Random lives of consumers in one group of the consumer protocol (KIP-848), on the broker's own ConsumerGroup.

Members come, go, fall silent, are fenced, subscribe to something else, and have listeners that take their time; answers
are lost, coordinators fail, topics grow, and metadata learns of it late.

Whatever happens: no partition is owned by two members whose sessions last; no offset is committed that was not
processed. When nothing happens any more, every partition has one owner, and every record was read.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.group.consumer.states import TRANSITIONS, MemberEvent, MemberState, next_state
from barnabas.clients.consumer.rebalance_listener import RebalanceListener
from barnabas.clients.consumer.subscription_pattern import SubscriptionPattern
from barnabas.clients.errors import ClientTimeout, CommitFailed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.reconciling_group import ReconcilingGroup, coordinator_of
from tests.unit.clients.consumer.test_consumer import batch

LIVES, MORE_LIVES, LIVES_PER_TEST = 60, 2_000, 20
STEPS = 40
NAMES = ("foo", "bar", "baz")
PATTERNS = {"ba.": {"bar", "baz"}, "f.*": {"foo"}, "none": set[str]()}
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class Member(RebalanceListener):
    """A consumer with its user: what it was given to read, and what of it is processed."""

    def __init__(self, life: GroupLife, member_id: str, **settings: Any) -> None:
        self.life = life
        self.member_id = member_id
        self.consumer: Consumer = life.group.consumer(member_id, **settings)
        self.commits_itself = settings["enable_auto_commit"]
        self.topics: set[str] = set()
        self.unprocessed: list[ConsumerRecord] = []
        self.fenced_joins = -1
        """The membership that the coordinator has ended."""

    @property
    def is_in_session(self) -> bool:
        membership = coordinator_of(self.consumer)._membership
        return membership.joins != self.fenced_joins and not membership.state.has_lost_partitions

    def subscribe(self, topics: set[str] | None, pattern: str | None) -> None:
        self.topics = topics if topics is not None else PATTERNS[pattern or ""]
        if pattern is not None:
            self.consumer.subscribe(pattern=SubscriptionPattern(pattern), listener=self)
        else:
            self.consumer.subscribe(sorted(self.topics), listener=self)

    def poll(self) -> None:
        self.process()
        try:
            self.unprocessed = self.consumer.poll(20)
        except ApiError as error:
            self.give_up(error)
        for record in self.unprocessed:
            self.life.read.add((record.topic, record.partition, record.offset))

    def give_up(self, error: ApiError) -> None:
        """End a static member whose join was carried out and not answered: its session keeps its place, as in Kafka."""
        if error.code is not ErrorCode.UNRELEASED_INSTANCE_ID or self.consumer.config.group_instance_id is None:
            raise error
        self.life.members.remove(self)
        self.consumer.close(timeout_ms=200)

    def process(self) -> None:
        """What the user has polled before counts as processed when the user calls again."""
        for record in self.unprocessed:
            ends = self.life.processed
            place = record.topic, record.partition
            ends[place] = max(ends[place], record.offset + 1)
        self.unprocessed = []

    def heartbeat(self) -> None:
        for _ in range(3):
            coordinator_of(self.consumer).channel.run_once()

    def expire(self) -> None:
        self.fenced_joins = coordinator_of(self.consumer)._membership.joins
        self.life.group.expire(self.member_id)

    # -- the listener

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.dawdle()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.dawdle()

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.dawdle()

    def dawdle(self) -> None:
        """Let things happen while the listener works."""
        chance = self.life.chance
        if chance.random() < 0.2:
            self.life.group.cluster.clock.advance(chance.choice((1_000, 10_000, 400_000)))
        if chance.random() < 0.1:
            self.expire()
        for member in self.life.members:
            if chance.random() < 0.3:
                member.heartbeat()


class GroupLife:
    """One life of a group."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.group = ReconcilingGroup(foo=3, bar=1)
        self.group.regexes = dict(PATTERNS)
        self.members: list[Member] = []
        self.made = 0
        self.refused: list[Exception] = []
        """Why commits of the users were not carried out."""
        self.read: set[tuple[str, int, int]] = set()
        self.processed: dict[tuple[str, int], int] = defaultdict(int)
        self.group.on_commit = self.check_commit

    def live(self) -> None:
        actions: tuple[Callable[[], None], ...] = (
            *[self.poll] * 12,
            *[self.join] * 2,
            *[self.produce] * 3,
            self.heartbeat,
            self.fall_silent,
            self.expire,
            self.resubscribe,
            self.grow_topic,
            self.tell_topics,
            *[self.lose_answers] * 2,
            self.fail_coordinator,
            self.commit,
            self.unsubscribe,
            self.close,
        )
        for _ in range(STEPS):
            self.chance.choice(actions)()
            self.check_owners()
        self.settle()
        for member in self.members:
            member.process()
            member.consumer.close()

    def any_member(self) -> Member | None:
        return self.chance.choice(self.members) if self.members else None

    # -- what happens

    def join(self) -> None:
        if len(self.members) == 4:
            return
        self.made += 1
        commits = self.chance.random() < 0.7
        instance = "static" if self.chance.random() < 0.3 and self.is_static_place_free() else None
        member = Member(
            self,
            f"member-{self.made}",
            enable_auto_commit=commits,
            max_poll_records=2,
            group_instance_id=instance,
        )
        self.members.append(member)
        self.choose_topics(member)

    def is_static_place_free(self) -> bool:
        """Whether the static member of the group has left for a while, or for good."""
        if any(member.consumer.config.group_instance_id is not None for member in self.members):
            return False
        known = self.group.coordinator.group.static_member("static")
        return known is None or known.member_epoch == -2

    def choose_topics(self, member: Member) -> None:
        if self.chance.random() < 0.3:
            member.subscribe(None, self.chance.choice(list(PATTERNS)))
        else:
            member.subscribe(set(self.chance.sample(NAMES, self.chance.randint(1, 3))), None)

    def poll(self) -> None:
        if member := self.any_member():
            for _ in range(self.chance.randint(1, 6)):
                if member in self.members:
                    member.poll()

    def heartbeat(self) -> None:
        """The user is busy; the channel's thread is not."""
        if member := self.any_member():
            self.group.cluster.clock.advance(self.chance.choice((100, 5_000)))
            member.heartbeat()

    def fall_silent(self) -> None:
        """The user is busy for longer than the group allows."""
        if member := self.any_member():
            self.group.cluster.clock.advance(400_000)
            member.heartbeat()

    def expire(self) -> None:
        if member := self.any_member():
            member.expire()

    def resubscribe(self) -> None:
        member = self.any_member()
        if member is not None:
            if self.chance.random() < 0.5:
                member.process()
            member.consumer.unsubscribe()
            member.unprocessed = []
            self.choose_topics(member)

    def unsubscribe(self) -> None:
        """A consumer leaves, and comes back at its next turn."""
        if member := self.any_member():
            member.consumer.unsubscribe()
            member.heartbeat()
            self.choose_topics(member)

    def produce(self) -> None:
        name = self.chance.choice(list(self.group.topics))
        partition = self.chance.randrange(self.group.topics[name])
        logs = self.group.cluster.logs
        end = self.group.cluster._end(name, partition)
        logs[name, partition] += batch(end, [b"v"] * self.chance.randint(1, 4))

    def grow_topic(self) -> None:
        topics = dict(self.group.topics)
        name = self.chance.choice(NAMES)
        topics[name] = topics.get(name, 0) + 1
        self.group.change_topics(told=self.chance.random() < 0.5, **topics)

    def tell_topics(self) -> None:
        self.group.tell_topics()

    def lose_answers(self) -> None:
        """The coordinator's answers do not come, until the connections are lost with them."""
        if self.group.silent:
            self.reconnect()
        else:
            self.group.silent.add(
                self.chance.choice((ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT))
            )

    def reconnect(self) -> None:
        self.group.silent.clear()
        for selector in self.group.selectors.values():
            if "0" in selector.channels:
                selector.disconnect("0")

    def fail_coordinator(self) -> None:
        error = self.chance.choice(PASSING)
        api_key = self.chance.choice((ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR))
        if api_key is not ApiKey.CONSUMER_GROUP_HEARTBEAT and error not in PASSING[:2]:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.group.group_errors[api_key].append(error)

    def commit(self) -> None:
        if member := self.any_member():
            member.process()
            try:
                member.consumer.commit_sync(timeout_ms=200)
            except (CommitFailed, ClientTimeout) as error:
                self.refused.append(error)

    def close(self) -> None:
        if member := self.any_member():
            self.members.remove(member)
            member.process()
            member.consumer.close(timeout_ms=200, leave_group=self.chance.random() < 0.7)

    # -- what must hold

    def check_owners(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for member in self.members:
            if member.is_in_session:
                for partition in member.consumer.assignment():
                    assert partition not in owners, f"{partition}: {owners[partition]} and {member.member_id}"
                    owners[partition] = member.member_id

    def check_commit(self, topic: str, partition: int, offset: int) -> None:
        assert offset <= self.processed[topic, partition], f"{topic}-{partition}: {offset} was not processed"

    def settle(self) -> None:
        """Nothing happens any more: everybody gets what he reads, and reads all of it."""
        self.reconnect()
        self.group.tell_topics()
        self.group.group_errors.clear()
        for _ in range(400):
            # The sessions of members that closed end, of those too whose last heartbeat was lost.
            for member_id in self.group.coordinator.group.members.keys() - {each.member_id for each in self.members}:
                self.group.expire(member_id)
            for member in list(self.members):
                member.poll()
            self.check_owners()
            if self.is_settled():
                return
        raise AssertionError(f"not settled: {[(m.member_id, m.consumer.assignment()) for m in self.members]}")

    def is_settled(self) -> bool:
        if any(coordinator_of(each.consumer)._membership.state is not MemberState.STABLE for each in self.members):
            return False
        topics = {name for member in self.members for name in member.topics} & self.group.topics.keys()
        wanted = sorted(TopicPartition(name, number) for name in topics for number in range(self.group.topics[name]))
        owned = sorted(each for member in self.members for each in member.consumer.assignment())
        logs = self.group.cluster
        return owned == wanted and all(
            (name, number, offset) in self.read for name, number in wanted for offset in range(logs._end(name, number))
        )


def live(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            GroupLife(seed).live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_lives(first: int) -> None:
    live(first, LIVES_PER_TEST)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LIVES, LIVES + MORE_LIVES, LIVES_PER_TEST))
def test_more_lives(first: int) -> None:
    live(first, LIVES_PER_TEST)


def test_a_member_does_not_take_over_what_it_has_not_named() -> None:
    """A full heartbeat gets lost while the member has an assignment to take over, and the coordinator gives it away.

    Java's member takes the assignment over all the same, and is fenced at its next heartbeat.
    """
    live(2_851, 1)


# -- the table


def test_every_state_is_reached_and_left() -> None:
    reached = {following for row in TRANSITIONS.values() for following in row.values()}
    assert set(TRANSITIONS) == reached == set(MemberState)
    for state, row in TRANSITIONS.items():
        assert state is MemberState.FATAL or any(following is not state for following in row.values())


def test_a_member_can_always_leave_and_then_owns_nothing() -> None:
    """From each state there is a way out that needs nothing of the coordinator."""
    for first in MemberState:
        state = first
        for event in (MemberEvent.UNSUBSCRIBE, MemberEvent.RELEASED, MemberEvent.LEFT):
            if event in TRANSITIONS[state]:
                state = next_state(state, event)
        assert state in {MemberState.UNSUBSCRIBED, MemberState.FATAL}


def test_an_event_that_cannot_be_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="Invalid event RECONCILED of a member in state STABLE"):
        next_state(MemberState.STABLE, MemberEvent.RECONCILED)
