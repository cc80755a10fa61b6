"""Reassignments on several brokers: phases, cancellation, replacement, failover, deletion, what brokers are told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.topic_zk_data import LeaderIsrAndControllerEpoch, ReassignPartitionsZNode, ReplicaAssignment
from tests.support.controller_cluster import Cluster, RecordingBroker

ORDERS = TopicPartition("orders", 0)
Outcome = Mapping[TopicPartition, ApiError | None] | ApiError


def move(cluster: Cluster, target: Sequence[int] | None, partition: TopicPartition = ORDERS, **terms: Any) -> Outcome:
    """Ask the active controller; its answer."""
    answers: list[Outcome] = []
    cluster.active.controller.alter_partition_reassignments({partition: target}, answers.append, **terms)
    cluster.settle()
    (answer,) = answers
    return answer


def moved(cluster: Cluster, target: Sequence[int] | None) -> None:
    assert move(cluster, target) == {ORDERS: None}


def refusal(cluster: Cluster, target: Sequence[int] | None, **terms: Any) -> ErrorCode:
    outcome = move(cluster, target, **terms)
    assert not isinstance(outcome, ApiError)
    (error,) = outcome.values()
    assert error is not None
    return error.code


def in_progress(cluster: Cluster, asked: Collection[TopicPartition] | None = None) -> dict[TopicPartition, Any]:
    answers: list[Any] = []
    cluster.active.controller.list_partition_reassignments(asked, answers.append)
    cluster.settle()
    return dict(answers[0])


def assignment(cluster: Cluster) -> ReplicaAssignment:
    """As the store has it."""
    (found,) = cluster.active.zk.topics.assignments(["orders"])
    return found.assignment[ORDERS]


def leader_writes_isr(cluster: Cluster, *isr: int) -> None:
    """What the partition's leader does when followers have caught up."""
    state = cluster.state("orders")
    wanted = LeaderIsrAndControllerEpoch(state.leader_and_isr._replace(isr=isr), state.controller_epoch)
    cluster.active.zk.topics.update_partition_states({ORDERS: wanted})
    cluster.settle()


def last_leader_and_isr(broker: RecordingBroker) -> tuple[list[int], list[int], list[int], bool]:
    """(replicas, adding, removing, is new) of the last LeaderAndIsr a broker was sent."""
    requests = [request for request in broker.requests if isinstance(request, LeaderAndIsrRequest)]
    (state,) = requests[-1].topic_states[0].partition_states
    return list(state.replicas), list(state.adding_replicas), list(state.removing_replicas), state.is_new


def deletions(broker: RecordingBroker) -> list[bool]:
    """Whether each StopReplica a broker was sent deletes."""
    return [
        state.delete_partition
        for request in broker.take()
        if isinstance(request, StopReplicaRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]


def test_a_partition_moves_to_other_brokers_when_they_are_in_sync() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    for broker in cluster.brokers.values():
        broker.take()
    moved(cluster, [2, 1])
    # phases U and A: everybody is told the next epoch, and the new replica that it is new
    assert assignment(cluster) == ReplicaAssignment((2, 1, 0), (2,), (0,))
    assert cluster.leadership("orders") == (0, 1, (0, 1))
    assert last_leader_and_isr(cluster.brokers[0]) == ([2, 1, 0], [2], [0], False)
    assert last_leader_and_isr(cluster.brokers[2]) == ([2, 1, 0], [2], [0], True)
    assert in_progress(cluster) == {ORDERS: ReplicaAssignment((2, 1, 0), (2,), (0,))}
    assert in_progress(cluster, [TopicPartition("orders", 1)]) == {}

    leader_writes_isr(cluster, 0, 1, 2)
    # phase B: the leader is not in the target, so another is elected, and the old one leaves
    assert assignment(cluster) == ReplicaAssignment((2, 1))
    leader, _, isr = cluster.leadership("orders")
    assert (leader, sorted(isr)) == (2, [1, 2])
    assert deletions(cluster.brokers[0]) == [False, True]
    assert deletions(cluster.brokers[1]) == []
    (partition,) = cluster.brokers[0].cache.image.topics["orders"].partitions
    assert (partition.leader, partition.replicas) == (2, (2, 1))
    assert in_progress(cluster) == {}


def test_not_before_all_of_the_target_is_in_sync() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0]})
    moved(cluster, [1, 2])
    leader_writes_isr(cluster, 0, 1)
    assert assignment(cluster).is_being_reassigned
    assert cluster.leadership("orders")[0] == 0
    leader_writes_isr(cluster, 0, 1, 2)
    assert assignment(cluster) == ReplicaAssignment((1, 2))
    assert cluster.leadership("orders")[0] == 1


def test_a_leader_that_stays_leads_on_in_the_next_epoch() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    moved(cluster, [0, 2])
    leader_writes_isr(cluster, 0, 1, 2)
    leader, _, isr = cluster.leadership("orders")
    assert (leader, isr) == (0, (0, 2))
    assert assignment(cluster) == ReplicaAssignment((0, 2))


def test_a_cancelled_reassignment_takes_the_new_replicas_back() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    moved(cluster, [2, 1])
    cluster.brokers[2].take()
    moved(cluster, None)
    assert sorted(assignment(cluster).replicas) == [0, 1]
    assert not assignment(cluster).is_being_reassigned
    assert cluster.leadership("orders")[0] == 0
    assert deletions(cluster.brokers[2]) == [False, True]
    assert in_progress(cluster) == {}
    assert refusal(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_reassignment_replaces_the_one_before() -> None:
    cluster = Cluster(0, 1, 2, 3)
    cluster.create_topic("orders", {0: [0]})
    moved(cluster, [1])
    moved(cluster, [2])
    assert assignment(cluster) == ReplicaAssignment((2, 0), (2,), (0,))
    assert deletions(cluster.brokers[1]) == [False, True]
    leader_writes_isr(cluster, 0, 2)
    assert assignment(cluster) == ReplicaAssignment((2,))
    assert cluster.leadership("orders") == (2, cluster.leadership("orders")[1], (2,))


def test_a_replica_that_stays_leads_before_the_leader_is_deleted() -> None:
    cluster = Cluster(0, 1, 2, 3)
    cluster.create_topic("orders", {0: [0, 1]})
    moved(cluster, [0, 2, 3])
    leader_writes_isr(cluster, 0, 1, 2)
    cluster.brokers[0].stop()
    cluster.settle()
    assert cluster.leadership("orders")[0] == 2
    moved(cluster, [0])
    leader, _, isr = cluster.leadership("orders")
    assert (leader, isr) == (1, (1,))
    assert assignment(cluster) == ReplicaAssignment((0, 1), (), (1,))
    assert True in deletions(cluster.brokers[2])


def test_the_only_replica_in_sync_is_not_deleted_by_a_replacement_or_a_cancellation() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0]})
    moved(cluster, [1, 2])
    leader_writes_isr(cluster, 0, 1)
    cluster.brokers[0].stop()
    cluster.settle()
    before = cluster.leadership("orders")
    assert before[0] == 1
    for broker in cluster.brokers.values():
        broker.take()
    for target in ([2, 0], [0], None):
        assert refusal(cluster, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    ask_in_store(cluster, {ORDERS: [0]})
    assert in_store(cluster) is None
    assert cluster.leadership("orders") == before
    assert in_progress(cluster) == {ORDERS: ReplicaAssignment((1, 2, 0), (1, 2), (0,))}
    assert [deletions(broker) for broker in cluster.brokers.values()] == [[], []]

    # Not when that replica is dead, too: the others have not got its records.
    cluster.brokers[1].stop()
    cluster.settle()
    assert refusal(cluster, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    cluster.start(0)
    cluster.start(1)
    cluster.settle()
    leader_writes_isr(cluster, 1, 0)
    moved(cluster, None)
    leader, _, isr = cluster.leadership("orders")
    assert (leader, isr) == (0, (0,))
    assert assignment(cluster) == ReplicaAssignment((0,))


def test_the_leader_is_not_deleted_before_another_can_lead() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    moved(cluster, [2])
    cluster.brokers[2].stop()
    cluster.settle()
    # The leader took the replica into the ISR in the moment of its death.
    leader_writes_isr(cluster, 0, 1, 2)
    assert cluster.leadership("orders")[0] == 0
    assert assignment(cluster).is_being_reassigned
    assert [True in deletions(broker) for broker in cluster.brokers.values()] == [False, False]
    cluster.start(2)
    cluster.settle()
    assert cluster.leadership("orders")[0] == 2
    assert assignment(cluster) == ReplicaAssignment((2,))


def test_what_one_controller_began_the_next_one_ends() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [1]})
    moved(cluster, [2])
    cluster.brokers[0].stop()
    cluster.settle()
    assert cluster.active.id != 0
    assert in_progress(cluster) == {ORDERS: ReplicaAssignment((2, 1), (2,), (1,))}
    leader_writes_isr(cluster, 1, 2)
    assert assignment(cluster) == ReplicaAssignment((2,))
    assert cluster.leadership("orders")[0] == 2


def test_a_reassignment_waits_for_a_broker_that_died_and_goes_on_with_it() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0]})
    moved(cluster, [2])
    cluster.brokers[2].stop()
    cluster.settle()
    assert assignment(cluster).is_being_reassigned
    broker = cluster.start(2)
    cluster.settle()
    assert last_leader_and_isr(broker)[:3] == ([2, 0], [2], [0])
    leader_writes_isr(cluster, 0, 2)
    assert assignment(cluster) == ReplicaAssignment((2,))


def test_leaders_are_not_rebalanced_while_a_partition_moves() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0]})
    cluster.create_topic("payments", {0: [1, 0]})
    payments = TopicPartition("payments", 0)
    cluster.brokers[1].stop()
    cluster.settle()
    cluster.start(1)
    cluster.settle()
    state = cluster.state("payments")
    in_sync = LeaderIsrAndControllerEpoch(state.leader_and_isr._replace(isr=(0, 1)), state.controller_epoch)
    cluster.active.zk.topics.update_partition_states({payments: in_sync})
    cluster.active.zk.propagate_isr_changes({payments})
    moved(cluster, [2])
    cluster.scheduler.tick(5_000)
    cluster.settle()
    assert cluster.leadership("payments")[0] == 0
    leader_writes_isr(cluster, 0, 2)
    assert in_progress(cluster) == {}
    cluster.scheduler.tick(300_000)
    cluster.settle()
    assert cluster.leadership("payments")[0] == 1


def test_a_topic_that_is_being_reassigned_is_deleted_with_all_its_replicas() -> None:
    cluster = Cluster(0, 1)
    topic_id = cluster.create_topic("orders", {0: [0]})
    moved(cluster, [1])
    # Kafka means to wait for the end of the reassignment, but asks before the topic counts as one to be deleted
    cluster.active.zk.topics.request_deletion("orders")
    cluster.settle()
    assert cluster.active.zk.topics.all_topics() == set()
    assert [True in deletions(broker) for broker in cluster.brokers.values()] == [True, True]
    assert in_progress(cluster) == {}
    assert cluster.create_topic("orders", {0: [0]}) != topic_id
    moved(cluster, [1])
    leader_writes_isr(cluster, 0, 1)
    assert assignment(cluster) == ReplicaAssignment((1,))


def test_refused() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0]})
    for target in ([], [0, 0], [-1], [0, 7]):
        assert refusal(cluster, target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refusal(cluster, [0, 1], allow_replication_factor_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    missing = TopicPartition("orders", 9)
    assert refusal(cluster, [1], partition=missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.leadership("orders") == (0, 0, (0,))
    follower = next(broker for broker in cluster.brokers.values() if not broker.controller.is_active)
    answers: list[Outcome] = []
    follower.controller.alter_partition_reassignments({ORDERS: [1]}, answers.append)
    cluster.settle()
    assert isinstance(answers[0], ApiError)
    assert answers[0].code is ErrorCode.NOT_CONTROLLER


ACTIONS = st.one_of(
    st.tuples(st.just("move"), st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("catch up"), st.integers(0, 3)),
    st.tuples(st.just("stop"), st.integers(0, 3)),
    st.tuples(st.just("start"), st.integers(0, 3)),
)


def test_a_growth_that_the_controller_has_not_heard_of_is_not_undone() -> None:
    cluster = Cluster(0)
    topic_id = cluster.create_topic("orders", {0: [0]})
    broker = cluster.brokers[0]
    grown = {TopicPartition("orders", index): ReplicaAssignment((0,)) for index in range(3)}
    broker.zk.topics.set_assignment("orders", topic_id, grown)
    answers: list[Any] = []
    partition = TopicPartition("orders", 0)
    broker.controller.alter_partition_reassignments({partition: [0]}, answers.append)
    broker.controller.run_pending()
    assert answers == [{partition: None}]
    cluster.settle()
    assert len(broker.cache.image.topics["orders"].partitions) == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=14))
@example([("move", [0, 2, 3]), ("catch up", 2), ("stop", 0), ("move", [0])])
@example([("move", [0]), ("move", [1, 2]), ("catch up", 1), ("stop", 0), ("move", [0])])
def test_whatever_happens_it_ends_where_it_was_told_to(actions: list[tuple[str, Any]]) -> None:
    """Brokers come and go, reassignments replace each other; once all are in sync, the target is all there is."""
    cluster = Cluster(0, 1, 2, 3)
    cluster.create_topic("orders", {0: [0, 1]})
    for what, how in actions:
        if what in ("move", "cancel"):
            move(cluster, how)
        elif what == "catch up":
            _catch_up(cluster, how)
        elif what == "stop" and how in cluster.brokers and len(cluster.brokers) > 1:
            cluster.brokers[how].stop()
        elif what == "start" and how not in cluster.brokers:
            cluster.start(how)
        cluster.settle()
    for broker_id in range(4):
        if broker_id not in cluster.brokers:
            cluster.start(broker_id)
            cluster.settle()
    target = assignment(cluster).target_replicas
    for broker_id in assignment(cluster).replicas:
        _catch_up(cluster, broker_id)
    assert assignment(cluster) == ReplicaAssignment(target)
    assert in_progress(cluster) == {}
    leader, _, isr = cluster.leadership("orders")
    assert leader in target
    assert set(isr) == set(target)
    for broker in cluster.brokers.values():
        (partition,) = broker.cache.image.topics["orders"].partitions
        assert (partition.leader, partition.replicas) == (leader, target)


def _catch_up(cluster: Cluster, broker_id: int) -> None:
    """The leader, if it lives, takes a live replica into the in-sync replicas."""
    leader, _, isr = cluster.leadership("orders")
    if leader in cluster.brokers and broker_id in cluster.brokers and broker_id in assignment(cluster).replicas:
        leader_writes_isr(cluster, *dict.fromkeys((*isr, broker_id)))


# -- /admin/reassign_partitions

PATH = "/admin/reassign_partitions"


def ask_in_store(cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    cluster.active.session.create(PATH, ReassignPartitionsZNode.encode(targets))
    cluster.settle()


def in_store(cluster: Cluster) -> dict[TopicPartition, tuple[int, ...]] | None:
    """What is still to be moved; None when the znode is gone."""
    session = cluster.active.session
    return None if session.exists(PATH) is None else ReassignPartitionsZNode.decode(session.get(PATH).data)


def test_the_store_asks_for_a_move_and_is_told_of_its_end() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    for target in ([2, 1], [0, 2]):  # the second time too: the watch is set again
        origin = assignment(cluster).replicas
        ask_in_store(cluster, {ORDERS: target})
        assert assignment(cluster).is_being_reassigned
        assert in_store(cluster) == {ORDERS: tuple(target)}
        leader_writes_isr(cluster, *{*origin, *target})
        assert assignment(cluster) == ReplicaAssignment(tuple(target))
        assert in_store(cluster) is None


def test_of_the_stores_moves_those_that_cannot_begin_are_dropped() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0, 1]})
    missing, doubled = TopicPartition("missing", 0), TopicPartition("orders", 7)
    # Broker 9 is dead: the store's moves wait for it, as in Kafka.
    ask_in_store(cluster, {ORDERS: [0, 9], missing: [1], doubled: [2, 2]})
    assert in_store(cluster) == {ORDERS: (0, 9)}
    assert in_progress(cluster).keys() == {ORDERS}


def test_a_move_by_the_api_replaces_that_of_the_store() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [0]})
    ask_in_store(cluster, {ORDERS: [1]})
    moved(cluster, [2])
    assert in_store(cluster) is None
    assert assignment(cluster) == ReplicaAssignment((2, 0), (2,), (0,))


def test_the_next_controller_reads_the_stores_moves() -> None:
    cluster = Cluster(0, 1, 2)
    cluster.create_topic("orders", {0: [1, 2]})
    ask_in_store(cluster, {ORDERS: [2, 9]})
    # Asked for while no controller would see it.
    cluster.active.session.set(PATH, ReassignPartitionsZNode.encode({ORDERS: [1]}))
    cluster.brokers[0].stop()
    cluster.settle()
    assert assignment(cluster) == ReplicaAssignment((1,))
    assert in_store(cluster) is None


def test_a_store_that_asks_in_no_known_form_is_left_alone() -> None:
    cluster = Cluster(0, 1)
    cluster.create_topic("orders", {0: [0]})
    for data in (b"no JSON", b"[]", b'{"version":1}', b'{"version":1,"partitions":[{"topic":"orders"}]}'):
        cluster.active.session.create(PATH, data)
        cluster.settle()
        moved(cluster, [1])
        moved(cluster, None)
        assert cluster.active.session.get(PATH).data == data
        cluster.active.session.delete(PATH)
        cluster.settle()
