"""When offsets are forgotten: by age, by a time of their own, with their topics; and groups with the last of them."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.offsets_topic import GROUP_KIND
from barnabas.coordinator.runtime.record import version_of
from barnabas.protocol.errors import ErrorCode
from tests.unit.coordinator.group.offset_harness import GROUP, GroupBroker, with_member

RETENTION_MS = 10_000


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(retention_ms=RETENTION_MS, retention_check_interval_ms=1000)


def pass_time(broker: GroupBroker, milliseconds: int) -> None:
    """Let time pass, and everything expire that has to."""
    broker.clock.advance(milliseconds)
    broker.expiry.expire()
    broker.scheduler.tick(100)


def classic(broker: GroupBroker) -> ClassicGroup:
    group = broker.table.get(GROUP)
    assert group is not None
    assert isinstance(group.membership, ClassicGroup)
    return group.membership


def test_offsets_of_a_group_without_members_expire_after_their_commit(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1))
    pass_time(broker, RETENTION_MS // 2)
    broker.commit(("t", 1, 2))
    pass_time(broker, RETENTION_MS // 2)
    assert broker.committed() == {("t", 1): 2}
    assert broker.table.get(GROUP) is not None
    pass_time(broker, RETENTION_MS)
    assert broker.table.get(GROUP) is None
    assert broker.expiry.expired_count == 2
    # Nobody ever joined the group, so it has no record of its own that would need a tombstone.
    assert all(version_of(key) != GROUP_KIND for key, _ in broker.records())
    assert broker.restarted().committed() == {}


def test_offsets_of_a_group_that_had_members_expire_after_it_became_empty(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1))
    membership = classic(broker)
    membership.kind, membership.generation = "consumer", 3
    pass_time(broker, RETENTION_MS - 1)
    membership.state_since_ms = broker.clock.milliseconds()
    pass_time(broker, RETENTION_MS - 200)
    assert broker.committed() == {("t", 0): 1}
    pass_time(broker, 201)
    assert broker.table.get(GROUP) is None
    key, value = broker.records()[-1]
    assert (version_of(key), value) == (GROUP_KIND, None)


def test_members_keep_what_they_read(broker: GroupBroker) -> None:
    member = with_member(broker)
    broker.commit(("read", 0, 1), ("other", 0, 1), member=member, generation=1)
    pass_time(broker, RETENTION_MS)
    assert broker.committed() == {("read", 0): 1}


def test_members_keep_everything_while_nobody_knows_what_they_read(broker: GroupBroker) -> None:
    member = with_member(broker, topics=None)
    broker.commit(("read", 0, 1), ("other", 0, 1), member=member, generation=1)
    pass_time(broker, RETENTION_MS)
    assert len(broker.committed()) == 2


def test_a_retention_of_its_own_counts_instead(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), retention_ms=100)
    broker.commit(("t", 1, 1), retention_ms=5 * RETENTION_MS)
    pass_time(broker, 101)
    assert broker.committed() == {("t", 1): 1}
    pass_time(broker, 2 * RETENTION_MS)
    assert broker.committed() == {("t", 1): 1}


@pytest.mark.parametrize("retention_ms", [-2, -1000, -(2**63)])
def test_a_negative_retention_is_over_at_once(broker: GroupBroker, retention_ms: int) -> None:
    """As in Kafka: -1 alone stands for the broker's setting."""
    broker.commit(("t", 0, 1), retention_ms=retention_ms)
    broker.commit(("t", 1, 1), retention_ms=-1)
    assert broker.committed() == {("t", 0): 1, ("t", 1): 1}
    pass_time(broker, 1)
    assert broker.committed() == {("t", 1): 1}


def test_a_time_of_commit_that_the_client_says_is_what_counts(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), timestamp_ms=broker.clock.milliseconds() - RETENTION_MS)
    broker.commit(("t", 1, 1))
    pass_time(broker, 1)
    assert broker.committed() == {("t", 1): 1}


def test_an_open_transaction_keeps_its_offsets(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1))
    group = broker.table.get(GROUP)
    assert group is not None
    group.offsets.put_transactional(9, {"t": {0: group.offsets.of_topic("t")[0]}}, 100)
    pass_time(broker, 2 * RETENTION_MS)
    assert broker.committed() == {("t", 0): 1}


def test_many_offsets_expire_in_batches_that_the_log_takes(broker: GroupBroker) -> None:
    many = 2500
    offsets = [("t", partition, 1) for partition in range(many)]
    assert broker.commit(*offsets) == [[ErrorCode.NONE] * many]
    pass_time(broker, RETENTION_MS)
    assert broker.table.get(GROUP) is None
    assert broker.expiry.expired_count == many
    assert broker.restarted().committed() == {}


def test_deleted_topics_take_their_offsets_with_them(broker: GroupBroker) -> None:
    broker.expiry.start()
    broker.announce("t", "u")
    broker.commit(("t", 0, 1), ("t", 1, 1), ("u", 0, 1))
    broker.commit(("t", 0, 1), group="only-t")
    broker.announce(deleted=["t"])
    broker.scheduler.tick()
    assert broker.committed() == {("u", 0): 1}
    assert broker.table.get("only-t") is None
    assert broker.restarted().committed() == {("u", 0): 1}


def test_what_is_committed_of_a_topic_made_anew_stays(broker: GroupBroker) -> None:
    broker.expiry.start()
    broker.announce("t")
    broker.commit(("t", 0, 5), ("t", 1, 5))
    broker.announce(deleted=["t"])
    broker.clock.advance(1)
    broker.announce("t")
    assert broker.commit(("t", 0, 1)) == [[ErrorCode.NONE]]
    broker.scheduler.tick()  # it gets to the deletion only now
    assert broker.committed() == {("t", 0): 1}
    assert broker.restarted().committed() == {("t", 0): 1}


def test_offsets_with_long_keys_expire_too(broker: GroupBroker) -> None:
    group = "g" * 30_000
    for partition in range(50):
        broker.commit(("t", partition, 1), group=group)
    pass_time(broker, RETENTION_MS)
    assert broker.table.get(group) is None
    assert broker.restarted().committed(group) == {}


def test_it_happens_by_itself(broker: GroupBroker) -> None:
    broker.expiry.start()
    broker.commit(("t", 0, 1))
    broker.scheduler.tick(RETENTION_MS - 1)
    assert broker.table.get(GROUP) is not None
    broker.scheduler.tick(1000)
    assert broker.table.get(GROUP) is None
