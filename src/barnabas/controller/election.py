"""The choice of a leader: pure functions of assignment, in-sync replicas and live replicas.

Used by `partition_state_machine` on the controller's thread; pure.
Kafka: kafka.controller.Election, PartitionLeaderElectionAlgorithms.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, ReplicaAssignment


class ElectionStrategy(enum.Enum):
    """The reason for an election, which decides the replicas that may lead."""

    OFFLINE = "OfflinePartitionLeaderElectionStrategy(false)"
    OFFLINE_ALLOW_UNCLEAN = "OfflinePartitionLeaderElectionStrategy(true)"
    REASSIGN = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED_REPLICA = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


class ElectionResult(NamedTuple):
    """The elected leadership, None if no replica can lead, and the replicas to send it to."""

    partition: TopicPartition
    leader_and_isr: LeaderAndIsr | None
    recipients: tuple[int, ...]


# -- who: a broker id, or None


def offline_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int], *, allow_unclean: bool
) -> int | None:
    """Return the first live replica in sync; else, if unclean elections are allowed, the first live one; else None."""
    # In the order of the assignment, which begins with the preferred replica, and not in that of the ISR.
    in_sync = next((replica for replica in assignment if replica in live and replica in isr), None)
    if in_sync is None and allow_unclean:
        return next((replica for replica in assignment if replica in live), None)
    return in_sync


def reassign_leader(target_replicas: Sequence[int], isr: Collection[int], live: Collection[int]) -> int | None:
    """Return the first of the target replicas that is live and in sync, or None."""
    return next((replica for replica in target_replicas if replica in live and replica in isr), None)


def preferred_replica_leader(assignment: Sequence[int], isr: Collection[int], live: Collection[int]) -> int | None:
    """Return the first replica if it is live and in sync, else None."""
    return next((replica for replica in assignment[:1] if replica in live and replica in isr), None)


def controlled_shutdown_leader(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int], shutting_down: Collection[int]
) -> int | None:
    """Return the first replica that is live, in sync and not shutting down, or None."""
    candidates = (replica for replica in assignment if replica not in shutting_down)
    return next((replica for replica in candidates if replica in live and replica in isr), None)


# -- what: the new leadership


def elect_offline(
    partition: TopicPartition,
    current: LeaderAndIsr,
    assignment: Sequence[int],
    is_online: Callable[[int], bool],
    *,
    allow_unclean: bool,
) -> ElectionResult:
    """Elect for a partition without a live leader. The live in-sync replicas stay in sync.

    An unclean leader is alone in sync, and has to recover.
    """
    live = tuple(replica for replica in assignment if is_online(replica))
    leader = offline_leader(assignment, current.isr, live, allow_unclean=allow_unclean)
    if leader is None:
        return ElectionResult(partition, None, live)
    if leader in current.isr:
        isr = tuple(replica for replica in current.isr if is_online(replica))
        return ElectionResult(partition, current.new_leader_and_isr(leader, isr), live)
    return ElectionResult(partition, current.new_recovering_leader_and_isr(leader, (leader,)), live)


def elect_for_reassignment(
    partition: TopicPartition, current: LeaderAndIsr, assignment: ReplicaAssignment, is_online: Callable[[int], bool]
) -> ElectionResult:
    """Elect among the target replicas of a reassignment."""
    target = assignment.target_replicas
    live = tuple(replica for replica in target if is_online(replica))
    leader = reassign_leader(target, current.isr, live)
    return ElectionResult(partition, None if leader is None else current.new_leader(leader), target)


def elect_preferred_replica(
    partition: TopicPartition, current: LeaderAndIsr, assignment: Sequence[int], is_online: Callable[[int], bool]
) -> ElectionResult:
    """Elect the first replica."""
    live = tuple(replica for replica in assignment if is_online(replica))
    leader = preferred_replica_leader(assignment, current.isr, live)
    return ElectionResult(partition, None if leader is None else current.new_leader(leader), tuple(assignment))


def elect_for_controlled_shutdown(
    partition: TopicPartition,
    current: LeaderAndIsr,
    assignment: Sequence[int],
    is_online_or_shutting_down: Callable[[int], bool],
    shutting_down: Collection[int],
) -> ElectionResult:
    """Elect a leader that is not shutting down, and remove brokers that are from the in-sync replicas."""
    # The broker that shuts down is among the recipients: it must learn that it follows now.
    live = tuple(replica for replica in assignment if is_online_or_shutting_down(replica))
    leader = controlled_shutdown_leader(assignment, current.isr, live, shutting_down)
    if leader is None:
        return ElectionResult(partition, None, live)
    isr = tuple(replica for replica in current.isr if replica not in shutting_down)
    return ElectionResult(partition, current.new_leader_and_isr(leader, isr), live)
