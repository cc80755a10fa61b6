"""Random lives of consumers in one group, in what the classic and the consumer protocol have in common.

Members come, go, fall silent, are fenced, subscribe to something else, and have listeners that take their time; answers
are lost, coordinators fail, topics grow, and metadata learns of it late.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.clients.errors import ClientTimeout, CommitFailed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import batch
from tests.support.simulated_group import SimulatedGroup

STEPS = 40
NAMES = ("foo", "bar", "baz")
PATTERNS = {"ba.": {"bar", "baz"}, "f.*": {"foo"}, "none": set[str]()}
PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

G = TypeVar("G", bound=SimulatedGroup)


class GroupMember(RebalanceListener, ABC):
    """A consumer with its user: what it was given to read, and what of it is processed."""

    def __init__(self, life: GroupLife[Any], member_id: str, **settings: Any) -> None:
        self.life = life
        self.member_id = member_id
        self.consumer: Consumer = life.group.consumer(member_id, **settings)
        self.commits_itself = settings["enable_auto_commit"]
        self.topics: set[str] = set()
        self.unprocessed: list[ConsumerRecord] = []

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether the member has what it should have, as it sees it."""

    @abstractmethod
    def expire(self) -> None:
        """End the member's session at the coordinator."""

    @abstractmethod
    def is_removed_by(self, error: ApiError) -> bool:
        """Whether the error ends a consumer, whose user makes another one."""

    def subscribe(self, topics: set[str] | None, pattern: str | None) -> None:
        self.topics = topics if topics is not None else PATTERNS[pattern or ""]
        if pattern is not None:
            self.subscribe_pattern(pattern)
        else:
            self.consumer.subscribe(sorted(self.topics), listener=self)

    @abstractmethod
    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe in the way of the protocol."""

    def poll(self) -> None:
        self.process()
        try:
            self.unprocessed = self.consumer.poll(20)
        except ApiError as error:
            self.give_up(error)
        for record in self.unprocessed:
            self.life.read.add((record.topic, record.partition, record.offset))

    def give_up(self, error: ApiError) -> None:
        if not self.is_removed_by(error):
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
        coordinator = self.consumer._coordinator
        assert coordinator is not None
        for _ in range(3):
            coordinator.channel.run_once()

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


class GroupLife(ABC, Generic[G]):
    """One life of a group."""

    heartbeat_api: ApiKey
    fencing_errors: tuple[ErrorCode, ...]
    """The errors of a heartbeat after which a member joins again."""
    fragile_apis: tuple[ApiKey, ...]
    """The APIs whose answers are lost."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.group: G = self.new_group()
        self.members: list[GroupMember] = []
        self.made = 0
        self.refused: list[Exception] = []
        """Why commits of the users were not carried out."""
        self.read: set[tuple[str, int, int]] = set()
        self.processed: dict[tuple[str, int], int] = defaultdict(int)
        self.group.on_commit = self.check_commit

    @abstractmethod
    def new_group(self) -> G:
        """Make a group of the protocol, with the topics foo and bar."""

    @abstractmethod
    def new_member(self, name: str, **settings: Any) -> GroupMember:
        """Make a consumer that subscribes to nothing yet."""

    @abstractmethod
    def is_static_place_free(self) -> bool:
        """Whether a static member may come."""

    @abstractmethod
    def check_owners(self) -> None:
        """Check that no partition has two owners."""

    @abstractmethod
    def let_time_pass(self) -> None:
        """Let what is left of members that closed end, between two rounds in which nothing else happens."""

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

    def any_member(self) -> GroupMember | None:
        return self.chance.choice(self.members) if self.members else None

    # -- what happens

    def join(self) -> None:
        if len(self.members) == 4:
            return
        self.made += 1
        commits = self.chance.random() < 0.7
        instance = "static" if self.chance.random() < 0.3 and self.is_static_place_free() else None
        member = self.new_member(
            f"member-{self.made}",
            enable_auto_commit=commits,
            max_poll_records=2,
            group_instance_id=instance,
        )
        self.members.append(member)
        self.choose_topics(member)

    @property
    def has_static_member(self) -> bool:
        return any(member.consumer.config.group_instance_id is not None for member in self.members)

    def choose_topics(self, member: GroupMember) -> None:
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
            self.group.silent.add(self.chance.choice(self.fragile_apis))

    def reconnect(self) -> None:
        self.group.silent.clear()
        for selector in self.group.selectors.values():
            if "0" in selector.channels:
                selector.disconnect("0")

    def fail_coordinator(self) -> None:
        error = self.chance.choice((*PASSING, *self.fencing_errors))
        api_key = self.chance.choice((self.heartbeat_api, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR))
        if api_key is not self.heartbeat_api and error not in PASSING:
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

    def check_commit(self, topic: str, partition: int, offset: int) -> None:
        assert offset <= self.processed[topic, partition], f"{topic}-{partition}: {offset} was not processed"

    def settle(self) -> None:
        """Nothing happens any more: everybody gets what he reads, and reads all of it."""
        self.reconnect()
        self.group.tell_topics()
        self.group.group_errors.clear()
        for _ in range(400):
            self.let_time_pass()
            for member in list(self.members):
                member.poll()
            self.check_owners()
            if self.is_settled():
                return
        raise AssertionError(f"not settled: {[(m.member_id, m.consumer.assignment()) for m in self.members]}")

    def is_settled(self) -> bool:
        if not all(member.is_settled for member in self.members):
            return False
        topics = {name for member in self.members for name in member.topics} & self.group.topics.keys()
        wanted = sorted(TopicPartition(name, number) for name in topics for number in range(self.group.topics[name]))
        owned = sorted(each for member in self.members for each in member.consumer.assignment())
        logs = self.group.cluster
        return owned == wanted and all(
            (name, number, offset) in self.read for name, number in wanted for offset in range(logs._end(name, number))
        )


def live_all(life: type[GroupLife[Any]], first: int, count: int) -> None:
    """Run the lives of some seeds. Raises AssertionError with the seed of the first that fails."""
    for seed in range(first, first + count):
        try:
            life(seed).live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
