"""Our consumer's assignors and its part of the group protocol against Apache Kafka's own, for groups that change.

Members and topics have names of one letter, for which the order of Java's hash maps is that of the alphabet: where
Kafka's result depends on that order, ours still has to be the same.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from barnabas.clients.consumer.assignors.built_in import make_assignors
from barnabas.clients.consumer.assignors.partition_assignor import GroupAssignment, PartitionAssignor
from barnabas.clients.consumer.assignors.sticky import AbstractStickyAssignor
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.apache_kafka import POM, need_apache_kafka
from tests.support.maven import fetch_jars, find_java

GROUPS, REBALANCES = 40, 10
LETTERS = "abcdefghijkl"
RACKS = ("", "r1", "r2", "r3")


@dataclass
class RandomGroup:
    """A group that members join and leave, of a cluster that grows."""

    chance: random.Random
    assignor: str
    is_uniform: bool
    topics: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    members: dict[str, Subscription] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        self.has_racks = self.chance.random() < 0.4
        for topic in self.chance.sample(LETTERS, self.chance.randrange(1, 6)):
            self.topics[topic] = [self._racks() for _ in range(self.chance.choice([1, 2, 3, 6, 7, 12]))]
        self.wanted = self._some_topics()
        for _ in range(self.chance.randrange(1, 7)):
            self.join()

    def _racks(self) -> frozenset[str]:
        return frozenset(self.chance.sample(RACKS[1:], self.chance.randrange(1, 3))) if self.has_racks else frozenset()

    def _some_topics(self) -> tuple[str, ...]:
        return tuple(sorted(self.chance.sample(list(self.topics), self.chance.randrange(1, len(self.topics) + 1))))

    def join(self) -> None:
        free = [letter for letter in LETTERS[:10] if letter not in self.members]
        if free:
            self.members[self.chance.choice(free)] = Subscription(
                self.wanted if self.is_uniform else self._some_topics(),
                rack_id=(self.chance.choice(RACKS) or None) if self.has_racks else None,
                group_instance_id=self.chance.choice("zyxwvu") + str(len(free)) if self.chance.random() < 0.2 else None,
            )

    def change(self) -> None:
        what = self.chance.randrange(5)
        if what <= 1 or len(self.members) < 2:
            self.join()
        elif what == 2:
            del self.members[self.chance.choice(list(self.members))]
        elif what == 3:
            self.topics[self.chance.choice(list(self.topics))].append(self._racks())
        elif not self.is_uniform:
            member_id = self.chance.choice(list(self.members))
            old = self.members[member_id]
            self.members[member_id] = Subscription(
                self._some_topics(), old.user_data, old.owned_partitions, old.generation_id, old.rack_id
            )

    def adopt(self, assignment: GroupAssignment) -> None:
        """Members own what they got; now and then one has missed the rebalance."""
        self.generation += 1
        for member_id, subscription in self.members.items():
            if self.chance.random() < 0.15:
                continue
            owned = tuple(assignment[member_id])
            (assignor,) = make_assignors([self.assignor])
            assignor.on_assignment(Assignment(owned), ConsumerGroupMetadata("g", self.generation, member_id))
            is_eager = self.assignor == "sticky"
            self.members[member_id] = Subscription(
                subscription.topics,
                assignor.user_data(()),
                () if is_eager else owned,
                self.generation,
                subscription.rack_id,
                subscription.group_instance_id,
            )

    def line(self) -> str:
        topics = ";".join(
            f"{topic}:" + ",".join("+".join(sorted(racks)) or "-" for racks in partitions)
            for topic, partitions in self.topics.items()
        )
        members = " ".join(
            f"{member_id}/{subscription.group_instance_id or '-'}/{encode_subscription(subscription).hex()}"
            for member_id, subscription in self.members.items()
        )
        return f"assign {self.assignor} {topics} {members}"


class Oracle:
    """Kafka's assignors in a Java process; a line in, a line out."""

    def __init__(self, directory: Path) -> None:
        source = Path(__file__).with_name("ConsumerAssignorOracle.java")
        jars = fetch_jars(POM)
        self._log = (directory / "oracle.log").open("w")
        self._process = subprocess.Popen(
            [find_java(), "-Xmx256m", "-cp", f"{jars}/*", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        while answer := self._process.stdout.readline():
            if not answer.startswith("SLF4J"):
                return answer.strip()
        raise AssertionError(f"the oracle ended at {line}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    need_apache_kafka()
    running = Oracle(tmp_path_factory.mktemp("oracle"))
    yield running
    running.close()


def by_member(answer: str, group: RandomGroup) -> dict[str, set[TopicPartition]]:
    """Kafka's assignment, its copies of the subscriptions having been compared."""
    assignments = {}
    for word in answer.split(" "):
        member_id, subscription, assignment = word.split("/")
        assert bytes.fromhex(subscription) == encode_subscription(group.members[member_id])
        assignments[member_id] = set(decode_assignment(bytes.fromhex(assignment)).partitions)
    return assignments


def outcome(group: RandomGroup, assignment: dict[str, set[TopicPartition]]) -> list[tuple[str, int, int]]:
    """How many partitions each member has, and how many of them it had before."""
    (assignor,) = make_assignors([group.assignor])
    return [
        (member_id, len(assigned), len(assigned.intersection(owned_by(assignor, group.members[member_id]))))
        for member_id, assigned in sorted(assignment.items())
    ]


def owned_by(assignor: PartitionAssignor, subscription: Subscription) -> Sequence[TopicPartition]:
    return assignor.member_data(subscription).partitions if isinstance(assignor, AbstractStickyAssignor) else ()


@pytest.mark.java
@pytest.mark.parametrize("is_uniform", [True, False], ids=["uniform", "mixed"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_divides_as_kafka_does(oracle: Oracle, assignor: str, is_uniform: bool) -> None:
    different = 0
    for seed in range(GROUPS):
        group = RandomGroup(random.Random(seed), assignor, is_uniform)
        for _ in range(REBALANCES):
            (made,) = make_assignors([assignor])
            subscriptions = {
                member_id: decode_subscription(encode_subscription(subscription), subscription.group_instance_id)
                for member_id, subscription in group.members.items()
            }
            assignment = made.assign(group.topics, subscriptions)
            ours = {each: set(partitions) for each, partitions in assignment.items()}
            assert sum(map(len, assignment.values())) == len(set().union(*ours.values())), "to one member each"
            kafkas = by_member(oracle.ask(group.line()), group)
            if ours != kafkas:
                # With mixed subscriptions Kafka may give a partition back to a former owner who does not want its
                # topic any more, and takes the first of a hash set's when one of several has to go back.
                assert not is_uniform, group.line()
                different += 1
                is_wanted = all(
                    each.topic in group.members[member_id].topics for member_id in kafkas for each in kafkas[member_id]
                )
                assert not is_wanted or outcome(group, ours) == outcome(group, kafkas), group.line()
            group.adopt(assignment)
            group.change()
    assert different < GROUPS * REBALANCES / 50


@pytest.mark.java
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_user_data_is_kafkas(oracle: Oracle, name: str) -> None:
    assignment = Assignment((TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1)))
    (ours,) = make_assignors([name])
    ours.on_assignment(assignment, ConsumerGroupMetadata("g", 7, "m"))
    expected = oracle.ask(f"user-data {name} 7 {encode_assignment(assignment).hex()}")
    assert ours.user_data(()) == bytes.fromhex(expected)
