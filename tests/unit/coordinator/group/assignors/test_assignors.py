"""Assignors of consumer groups: what must hold of any assignment. That it is Kafka's: compatibility tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import OneOf
from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    GroupSubscriptionType,
    MemberSpec,
    PartitionAssignorError,
)
from barnabas.coordinator.group.assignors.server_assignors import assignors_named

ASSIGNORS = assignors_named(["uniform", "range"])
TOPICS = [bytes([number]) * 16 for number in range(1, 6)]


class Topics:
    def __init__(self, counts: Mapping[bytes, int]) -> None:
        self.counts = counts

    def partition_count(self, topic_id: bytes) -> int:
        return self.counts.get(topic_id, -1)

    def racks_for_partition(self, topic_id: bytes, partition: int) -> frozenset[str]:
        return frozenset()


def spec_of(members: Mapping[str, MemberSpec]) -> GroupSpec:
    subscriptions = {frozenset(member.subscribed_topic_ids) for member in members.values()}
    kind = GroupSubscriptionType.HOMOGENEOUS if len(subscriptions) < 2 else GroupSubscriptionType.HETEROGENEOUS
    assigned: dict[bytes, set[int]] = {}
    for member in members.values():
        for topic_id, partitions in member.assignment.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return GroupSpec(members, kind, assigned)


def joined(
    members: Mapping[str, MemberSpec], target: Mapping[str, Assignment], *, without: str | None = None
) -> dict[str, MemberSpec]:
    return {
        name: MemberSpec(member.subscribed_topic_ids, target.get(name, {}), member.instance_id)
        for name, member in members.items()
        if name != without
    }


subscribed = st.frozensets(st.sampled_from(TOPICS), min_size=1)
groups = st.one_of(
    st.dictionaries(st.text("abc", min_size=1), subscribed, min_size=1, max_size=8),
    st.builds(
        lambda names, topics: dict.fromkeys(sorted(names), topics),
        st.sets(st.text("abc", min_size=1), min_size=1),
        subscribed,
    ),
)
topic_sizes = st.fixed_dictionaries({topic_id: st.integers(0, 20) for topic_id in TOPICS})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions=groups, counts=topic_sizes)
def test_each_partition_that_somebody_wants_has_one_reader_who_wants_it(
    name: str, subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    members = {member: MemberSpec(topics) for member, topics in subscriptions.items()}
    target = ASSIGNORS[name].assign(spec_of(members), Topics(counts))
    read = [
        (topic_id, partition)
        for member, assignment in target.items()
        for topic_id, partitions in assignment.items()
        for partition in partitions
        if topic_id in subscriptions[member]
    ]
    wanted = set().union(*subscriptions.values())
    assert sorted(read) == [(topic_id, number) for topic_id in sorted(wanted) for number in range(counts[topic_id])]
    assert all(partitions for assignment in target.values() for partitions in assignment.values())


@given(subscriptions=groups, counts=topic_sizes)
def test_uniform_moves_nothing_without_need(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    uniform = ASSIGNORS["uniform"]
    members = {member: MemberSpec(topics) for member, topics in subscriptions.items()}
    first = uniform.assign(spec_of(members), Topics(counts))
    members = joined(members, first)
    second = uniform.assign(spec_of(members), Topics(counts))
    assert second == first
    assert all(second[member] is members[member].assignment for member in members), "they are handed on as they were"


@given(names=st.sets(st.text("abc", min_size=1), min_size=2, max_size=8), topics=subscribed, counts=topic_sizes)
def test_uniform_keeps_what_a_member_has_when_another_leaves(
    names: set[str], topics: frozenset[bytes], counts: dict[bytes, int]
) -> None:
    uniform = ASSIGNORS["uniform"]
    members = {member: MemberSpec(topics) for member in sorted(names)}
    first = uniform.assign(spec_of(members), Topics(counts))
    members = joined(members, first, without=min(names))
    second = uniform.assign(spec_of(members), Topics(counts))
    sizes = [sum(map(len, assignment.values())) for assignment in second.values()]
    assert max(sizes) - min(sizes) <= 1
    for member, spec in members.items():
        assert all(partitions <= second[member][topic_id] for topic_id, partitions in spec.assignment.items())


def test_range_gives_the_same_numbers_of_topics_of_one_size() -> None:
    one, other = TOPICS[:2]
    members = {member: MemberSpec({one, other}) for member in ("b", "a")}
    target = ASSIGNORS["range"].assign(spec_of(members), Topics({one: 3, other: 3}))
    assert target == {"a": {one: {0, 1}, other: {0, 1}}, "b": {one: {2}, other: {2}}}


def test_range_keeps_the_ranges_of_static_members_that_come_back_with_new_ids() -> None:
    topic_id = TOPICS[0]
    before = {"x": MemberSpec({topic_id}, {}, "i0"), "y": MemberSpec({topic_id}, {}, "i1"), "a": MemberSpec({topic_id})}
    after = {"y": MemberSpec({topic_id}, {}, "i0"), "x": MemberSpec({topic_id}, {}, "i1"), "z": MemberSpec({topic_id})}
    old, new = (ASSIGNORS["range"].assign(spec_of(members), Topics({topic_id: 6})) for members in (before, after))
    assert [old["x"], old["y"], old["a"]] == [new["y"], new["x"], new["z"]]
    assert old["x"] == {topic_id: {0, 1}}, "static members come first"


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_topic_that_does_not_exist(name: str) -> None:
    for members in ({"m": MemberSpec({TOPICS[0]})}, {"m": MemberSpec({TOPICS[0]}), "n": MemberSpec(set())}):
        with pytest.raises(PartitionAssignorError):
            ASSIGNORS[name].assign(spec_of(members), Topics({}))
    assert ASSIGNORS[name].assign(spec_of({}), Topics({})) == {}


def test_names() -> None:
    java = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
    assert list(assignors_named(["range", java])) == ["range", "uniform"], "in their order"
    assert list(assignors_named(["uniform", "range", java])) == ["uniform", "range"], "twice is no harm"
    with pytest.raises(ValueError, match="sticky is not a known assignor"):
        assignors_named(["sticky"])


def test_every_assignor_that_the_setting_takes_is_there() -> None:
    allowed = BROKER_CONFIG_KEYS["group.consumer.assignors"].validator
    assert isinstance(allowed, OneOf)
    assert assignors_named(allowed.allowed).keys() == ASSIGNORS.keys()
