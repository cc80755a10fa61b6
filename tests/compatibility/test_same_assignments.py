"""Our assignors of consumer groups give what those of Apache Kafka 4 give, for groups that live through random changes.

The order of Java's sets of topic ids cannot be had here, and need not: where it counts (uniform, homogeneous) the ids
are such that Java's order is that of the numbers.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    GroupSubscriptionType,
    MemberSpec,
    PartitionAssignorError,
)
from barnabas.coordinator.group.assignors.server_assignors import assignors_named
from tests.support.maven import counterparts_needed, fetch_jars, find_java
from tests.tools.kafka_tools import POMS

GROUPS, CHANGES = 150, 12


@dataclass
class RandomGroup:
    """A group, and the topics of its cluster, that change."""

    chance: random.Random
    is_homogeneous: bool
    counts: dict[bytes, int] = field(default_factory=dict)
    members: dict[str, MemberSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance, topics = self.chance, self.chance.randrange(1, 9)
        if self.is_homogeneous:
            ids = [number.to_bytes(16, "big") for number in chance.sample(range(2, 16), topics)]
        else:
            ids = [chance.randbytes(16) for _ in range(topics)]
        self.counts = {topic_id: chance.choice([1, 3, 4, 6, 12]) for topic_id in ids}
        self.subscriptions = frozenset(chance.sample(ids, chance.randrange(1, topics + 1)))
        for _ in range(chance.randrange(1, 8)):
            self._join()

    def partition_count(self, topic_id: bytes) -> int:
        return self.counts.get(topic_id, -1)

    def racks_for_partition(self, topic_id: bytes, partition: int) -> frozenset[str]:
        return frozenset()

    def spec(self) -> GroupSpec:
        assigned: dict[bytes, set[int]] = {}
        for member in self.members.values():
            for topic_id, partitions in member.assignment.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        kind = GroupSubscriptionType.HOMOGENEOUS if self.is_homogeneous else GroupSubscriptionType.HETEROGENEOUS
        return GroupSpec(self.members, kind, assigned)

    def adopt(self, target: dict[str, Assignment]) -> None:
        """The target becomes what members have. Sorted, as Kafka's side of the test sees it."""
        for member_id in self.members:
            self._replace(member_id, assignment=dict(sorted(target.get(member_id, {}).items())))

    def change(self) -> None:
        chance = self.chance
        what = chance.randrange(6)
        if what <= 1 or not self.members:
            self._join()
        elif what == 2:
            del self.members[chance.choice(list(self.members))]
        elif what == 3:  # a topic grows
            self.counts[chance.choice(list(self.counts))] += chance.randrange(1, 7)
        elif what == 4:  # subscriptions change, or the one they all share
            ids = list(self.counts)
            self.subscriptions = frozenset(
                chance.sample(ids, chance.randrange(0 if chance.random() < 0.1 else 1, 9) % (len(ids) + 1))
            )
            for member_id in [chance.choice(list(self.members))] if not self.is_homogeneous else list(self.members):
                self._replace(member_id, subscribed=self.subscriptions)
        elif chance.random() < 0.1:  # a topic goes while members subscribe to it
            del self.counts[chance.choice(list(self.counts))]
            self.counts = self.counts or {(2).to_bytes(16, "big"): 1}

    def _join(self) -> None:
        chance, ids = self.chance, list(self.counts)
        subscribed = (
            self.subscriptions if self.is_homogeneous else frozenset(chance.sample(ids, chance.randrange(len(ids) + 1)))
        )
        instance_id = f"i{chance.randrange(1000)}" if chance.random() < 0.3 else None
        self.members[f"m{chance.randrange(10**6)}"] = MemberSpec(subscribed, {}, instance_id)

    def _replace(
        self, member_id: str, *, subscribed: frozenset[bytes] | None = None, assignment: Assignment | None = None
    ) -> None:
        old = self.members[member_id]
        self.members[member_id] = MemberSpec(
            old.subscribed_topic_ids if subscribed is None else subscribed,
            old.assignment if assignment is None else assignment,
            old.instance_id,
        )


def line_of(assignor: str, group: RandomGroup) -> str:
    """A group in words, for AssignorOracle.java."""
    kind = group.spec().subscription_type.name
    topics = ",".join(f"{topic_id.hex()}={count}" for topic_id, count in group.counts.items())
    members = (
        f"{member_id}/{member.instance_id or ''}/{','.join(each.hex() for each in member.subscribed_topic_ids)}"
        f"/{text_of(member.assignment)}"
        for member_id, member in group.members.items()
    )
    return " ".join([assignor, kind, topics, *members])


def text_of(assignment: Assignment) -> str:
    return ",".join(
        f"{topic_id.hex()}={'.'.join(map(str, sorted(partitions)))}"
        for topic_id, partitions in sorted(assignment.items())
    )


def histories() -> Iterator[tuple[str, str]]:
    """Every step of every history: the question, and our answer."""
    for seed in range(GROUPS):
        for name, assignor in assignors_named(["uniform", "range"]).items():
            group = RandomGroup(random.Random(seed), is_homogeneous=seed % 3 == 0)
            for _ in range(CHANGES):
                question = line_of(name, group)
                try:
                    target = assignor.assign(group.spec(), group)
                    answer = " ".join(f"{member_id}/{text_of(target[member_id])}" for member_id in sorted(target))
                    group.adopt(target)
                except PartitionAssignorError as error:
                    answer = f"error {error}"
                yield question, answer
                group.change()


@pytest.mark.java
def test_same_assignments() -> None:
    with counterparts_needed():
        java, jars = find_java(), fetch_jars(POMS["4"])
    questions, ours = zip(*histories(), strict=True)
    oracle = Path(__file__).with_name("AssignorOracle.java")
    told = subprocess.run(
        [java, "-cp", f"{jars}/*", str(oracle)],
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    theirs = told.stdout.splitlines()
    assert len(theirs) == len(ours)
    for question, answer, expected in zip(questions, ours, theirs, strict=True):
        assert answer == expected, question
    assert sum(answer.startswith("error") for answer in ours) > 5
    assert sum("=" in answer for answer in ours) > len(ours) / 2
