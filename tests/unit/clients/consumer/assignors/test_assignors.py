"""What every assignor owes its group, for random groups; how Kafka's divide is compared in tests/clients."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.consumer.assignors.built_in import BUILT_IN, make_assignors
from barnabas.clients.consumer.assignors.partition_assignor import RebalanceProtocol
from barnabas.clients.consumer.group.classic.classic_coordinator import common_protocol
from barnabas.clients.values import ConsumerGroupMetadata
from barnabas.protocol.consumer_protocol import Assignment, Subscription
from barnabas.protocol.topic_partition import TopicPartition

NO_RACK: frozenset[str] = frozenset()

counts = st.dictionaries(st.sampled_from("tuvwx"), st.integers(0, 7), min_size=1)
memberships = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.sampled_from("tuvwxy"), min_size=1, unique=True), min_size=1
)


@pytest.mark.parametrize("name", list(BUILT_IN))
@settings(max_examples=100, deadline=None)
@given(counts=counts, members=memberships, later=memberships)
def test_everything_is_given_to_one_member_that_wants_it(
    name: str, counts: dict[str, int], members: dict[str, list[str]], later: dict[str, list[str]]
) -> None:
    (assignor,) = make_assignors([name])
    topics = {topic: (NO_RACK,) * count for topic, count in counts.items()}
    owned: dict[str, tuple[TopicPartition, ...]] = {}
    for generation, subscribed in enumerate((members, later, later)):
        subscriptions = {
            member_id: Subscription(tuple(wanted), None, owned.get(member_id, ()), generation)
            for member_id, wanted in subscribed.items()
        }
        assignment = assignor.assign(topics, subscriptions)
        assert assignment.keys() == subscribed.keys()
        given_away = [partition for partitions in assignment.values() for partition in partitions]
        assert len(given_away) == len(set(given_away))
        assert all(each.topic in subscribed[member_id] for member_id in assignment for each in assignment[member_id])
        wanted = {topic for topics_of in subscribed.values() for topic in topics_of}
        there = {
            TopicPartition(topic, index) for topic, count in counts.items() if topic in wanted for index in range(count)
        }
        kept = {
            partition: member_id for member_id, each in owned.items() if member_id in subscribed for partition in each
        }
        missing = there - set(given_away)
        if name != "cooperative-sticky":
            assert not missing
        else:
            assert missing <= kept.keys(), "only what its owner has to give up first"
            for member_id, partitions in assignment.items():
                assert all(kept.get(each, member_id) == member_id for each in partitions)
        owned = {member_id: tuple(partitions) for member_id, partitions in assignment.items()}


@settings(max_examples=100, deadline=None)
@given(
    members=st.integers(1, 9),
    count=st.integers(0, 40),
    leaver=st.integers(0, 8),
    name=st.sampled_from(["sticky", "cooperative-sticky"]),
)
def test_sticky_is_even_and_moves_only_what_it_must(members: int, count: int, leaver: int, name: str) -> None:
    topics = {"t": (NO_RACK,) * count}
    ids = [f"member-{number}" for number in range(members)]
    made = {member_id: make_assignors([name])[0] for member_id in ids}
    assignment = made[ids[0]].assign(topics, {member_id: Subscription(("t",)) for member_id in ids})
    sizes = sorted(map(len, assignment.values()))
    assert sizes[-1] - sizes[0] <= 1
    if members == 1:
        return
    gone = ids.pop(leaver % members)
    subscriptions = {}
    for member_id in ids:
        made[member_id].on_assignment(
            Assignment(tuple(assignment[member_id])), ConsumerGroupMetadata("g", 1, member_id)
        )
        owned = () if name == "sticky" else tuple(assignment[member_id])
        subscriptions[member_id] = Subscription(("t",), made[member_id].user_data(("t",)), owned, 1)
    after = made[ids[0]].assign(topics, subscriptions)
    assert all(set(assignment[member_id]) <= set(after[member_id]) for member_id in ids), f"{gone} left, nobody loses"


def test_protocols_have_to_fit() -> None:
    assert common_protocol(make_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    assert common_protocol(make_assignors(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER
    with pytest.raises(ValueError, match="knows range"):
        make_assignors(["fair"])
    with pytest.raises(ValueError, match="more than one"):
        make_assignors(["range", "range"])
