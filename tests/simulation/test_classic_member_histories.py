"""Random lives of consumers in one group of the classic protocol, on the broker's own service of classic groups.

Whatever happens: no partition is owned by two members in one generation; no offset is committed that was not processed.
When nothing happens any more, every partition has one owner, and every record was read.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.consumer.group.classic.classic_membership import MembershipState
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.simulation.group_members import NAMES, GroupLife, GroupMember, live_all
from tests.support.rebalancing_group import RebalancingGroup, coordinator_of

LIVES, MORE_LIVES, LIVES_PER_TEST = 40, 480, 20
ASSIGNORS = (["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"], ["range", "cooperative-sticky"])


class RebalancingMember(GroupMember):
    """A consumer whose group divides the partitions itself."""

    @property
    def identity(self) -> str:
        """The name that the group knows the member by: a static member that starts again goes on in its generation."""
        return self.consumer.config.group_instance_id or self.member_id

    @property
    def generation(self) -> int:
        """The generation whose assignment the member has taken over last."""
        return coordinator_of(self.consumer).group_metadata.generation_id

    @property
    def is_settled(self) -> bool:
        membership = coordinator_of(self.consumer)._member.membership
        return membership.state is MembershipState.STABLE and not membership.rejoin_needed

    def subscribe_pattern(self, pattern: str) -> None:
        self.consumer.subscribe(pattern=pattern, listener=self)

    def is_removed_by(self, error: ApiError) -> bool:
        """A static member another request of which has taken its place: the answer to that request was lost."""
        return error.code is ErrorCode.FENCED_INSTANCE_ID and self.consumer.config.group_instance_id is not None

    def expire(self) -> None:
        self.life.group.expire(self.consumer)


class RebalancingLife(GroupLife[RebalancingGroup]):
    """One life of a group of the classic protocol."""

    heartbeat_api = ApiKey.HEARTBEAT
    fencing_errors = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
    fragile_apis = (ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.assignors = self.chance.choice(ASSIGNORS)
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        """By generation and partition, for the whole life."""

    def new_group(self) -> RebalancingGroup:
        return RebalancingGroup(foo=3, bar=1)

    def new_member(self, name: str, **settings: Any) -> GroupMember:
        return RebalancingMember(
            self,
            name,
            partition_assignment_strategy=self.assignors,
            session_timeout_ms=10_000,
            max_poll_interval_ms=60_000,
            **settings,
        )

    def is_static_place_free(self) -> bool:
        return not self.has_static_member

    def choose_topics(self, member: GroupMember) -> None:
        """A static member always wants the same: one that starts again keeps its assignment, as in Kafka."""
        if member.consumer.config.group_instance_id is not None:
            member.subscribe(set(NAMES), None)
        else:
            super().choose_topics(member)

    def commit(self) -> None:
        try:
            super().commit()
        except ApiError as error:
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            self.refused.append(error)

    def check_owners(self) -> None:
        for member in self.members:
            assert isinstance(member, RebalancingMember)
            for partition in member.consumer.assignment():
                owner = self.owners.setdefault((member.generation, partition), member.identity)
                assert owner == member.identity, (
                    f"{partition} in generation {member.generation}: {owner}, {member.identity}"
                )

    def let_time_pass(self) -> None:
        """Let sessions of members that closed end, metadata grow old, and static members join again now and then.

        A static leader that starts again takes over the assignment that there is, without the partitions that came
        meanwhile, until the next rebalance: as in Kafka (KIP-814).
        """
        self.group.cluster.clock.advance(2_000)
        self.group.keep_time()
        if self.chance.random() < 0.02:
            for member in self.members:
                if member.consumer.config.group_instance_id is not None:
                    coordinator_of(member.consumer).enforce_rebalance("a static member")


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_lives(first: int) -> None:
    live_all(RebalancingLife, first, LIVES_PER_TEST)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LIVES, LIVES + MORE_LIVES, LIVES_PER_TEST))
def test_more_lives(first: int) -> None:
    live_all(RebalancingLife, first, LIVES_PER_TEST)


def test_a_heartbeat_that_is_answered_during_a_join_does_not_stop_the_member() -> None:
    """The answer says that the member is unknown, and the JoinGroup in flight has the id that it had until then."""
    live_all(RebalancingLife, 70, 1)
