"""The move of partitions to other brokers on request, step by step until the new replicas are in sync.

A part of the controller, on its thread, so no lock; called only while this broker is the controller. Late: imported
with the first reassignment, of a request or in the store. The topic's znode
keeps a reassignment in progress (adding and removing replicas), and the next controller continues it from there. With
RS the replicas, ORS the original ones, TRS the target, AR = TRS - ORS, RR = ORS - TRS:

- Phase U, always first: take RS = TRS + ORS, AR and RR into the context. If a replica leads that an earlier
  reassignment was adding and this one does not add, let another lead. Write RS, AR and RR to the store; without that,
  the context is as before. Stop and delete the replicas that this one does not add.
- Phase A, while a replica of TRS is not in sync: send the next leader epoch to all of RS; AR become NewReplica. Each
  change of the in-sync replicas checks again.
- Phase B, when all of TRS are in sync: AR become OnlineReplica; RS = TRS in the context; send the next leader epoch to
  TRS, with a new leader if the old one is not in TRS; stop and delete RR; write RS = TRS to the store, last, because
  only the store remembers ORS; send the metadata to every broker; continue a deletion that waited.

An example, from replicas 1, 2, 3 to 4, 5, 6 with leader 1:

    store: RS                 AR       RR       leader, ISR           step
    1, 2, 3                                     1, {1, 2, 3}          before
    4, 5, 6, 1, 2, 3          4, 5, 6  1, 2, 3  1, {1, 2, 3}          U
    4, 5, 6, 1, 2, 3          4, 5, 6  1, 2, 3  1, {1, 2, 3, 4, 5, 6} A, until this ISR
    4, 5, 6, 1, 2, 3          4, 5, 6  1, 2, 3  4, {1, 2, 3, 4, 5, 6} B: a leader in TRS
    4, 5, 6, 1, 2, 3          4, 5, 6  1, 2, 3  4, {4, 5, 6}          B: RR out of the ISR, stopped, deleted
    4, 5, 6                                     4, {4, 5, 6}          B: the store last

/admin/reassign_partitions, which tools wrote before Kafka 2.4's API, is read when it is created and when a controller
is elected. A partition leaves it when its move is complete, when it cannot begin, or when the API moves it elsewhere;
the last one takes the znode along. Kafka: KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from barnabas.controller.controller_context import PartitionAndReplica, StateChangeFailed
from barnabas.controller.controller_environment import ControllerEnvironment, StateMachines
from barnabas.controller.controller_events import Signal
from barnabas.controller.election import ElectionStrategy
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.controller.topic_deletion_manager import TopicDeletionManager
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.store.errors import BadVersionError, ControllerMovedError, NoNodeError
from barnabas.zk.znodes.topic_zk_data import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReassignPartitionsZNode,
    ReplicaAssignment,
)
from barnabas.zk.znodes.znode_json import ZnodeFormatError

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")

_MOST_LISTED: Final = 100
"""Broker ids named by a message. A request may hold half a million; a list of them takes 50 ms to write."""

NO_SUCH_PARTITION = "The partition does not exist."


class PartitionReassignments:
    """The reassignments of partitions. `send_metadata_update` tells all brokers about partitions."""

    def __init__(
        self,
        environment: ControllerEnvironment,
        machines: StateMachines,
        deletions: TopicDeletionManager,
        send_metadata_update: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        self._context = environment.context
        self._put_event = environment.put_event
        self._zk = environment.zk_client
        self._watches = environment.watches
        self._batch = machines.batch
        self._replicas = machines.replicas
        self._partitions = machines.partitions
        self._deletions = deletions
        self._send_metadata_update = send_metadata_update

    # -- what is asked for

    def alter(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin to move partitions to the given replicas (None cancels).

        Return the error of each partition, or None.
        """
        results: dict[TopicPartition, ApiError | None] = {}
        begun: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in wanted.items():
            current = self._context.assignment(partition)
            error = None if target is None else self._error_of(current, target, allow_replication_factor_change)
            if error is not None:
                results[partition] = error
            elif target is not None:
                begun[partition] = current.reassign_to(target)
            elif current.is_being_reassigned:
                begun[partition] = current.reassign_to(current.origin_replicas)
            else:
                results[partition] = ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        # The latest request counts, wherever it came from.
        self._remove_from_store(begun)
        return results | {partition: self._begin(partition, new) for partition, new in begun.items()}

    def begin_those_in_store(self) -> set[TopicPartition]:
        """Begin what /admin/reassign_partitions asks for, which is watched already. Return the partitions that move.

        Target replicas may be dead brokers, as in Kafka: the move waits for them.
        """
        begun: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()
        for partition, target in self._targets_in_store().items():
            text = _error_in(target)
            error = ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text) if text else None
            error = error or self._begin(partition, self._context.assignment(partition).reassign_to(target))
            if error is None:
                begun.add(partition)
            else:
                logger.warning("Cannot move %s as %s asks: %s", partition, ReassignPartitionsZNode.path, error)
                failed.add(partition)
        self._remove_from_store(failed)
        return begun

    def _targets_in_store(self) -> dict[TopicPartition, tuple[int, ...]]:
        try:
            return self._zk.topics.reassignment_targets()
        except ZnodeFormatError as error:
            logger.warning("Ignoring %s: %s", ReassignPartitionsZNode.path, error)
            return {}

    def _remove_from_store(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions out of /admin/reassign_partitions, and remove it with the last one."""
        if not partitions:
            return
        stored = self._targets_in_store()
        left = {partition: target for partition, target in stored.items() if partition not in partitions}
        if len(left) == len(stored):
            return
        try:
            self._zk.topics.replace_reassignment_targets(left, self._context.epoch_version)
        except NoNodeError:
            logger.info("%s was removed meanwhile", ReassignPartitionsZNode.path)
        if not left:
            # The next one may have been written before the watch was set again.
            self._put_event(Signal.STORE_REASSIGNMENT)

    def in_progress(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress of these partitions, or of all (None)."""
        asked = sorted(self._context.partitions_being_reassigned) if partitions is None else partitions
        found = {partition: self._context.assignment(partition) for partition in asked}
        return {partition: assignment for partition, assignment in found.items() if assignment.is_being_reassigned}

    def _error_of(
        self, current: ReplicaAssignment, target: Sequence[int], allow_replication_factor_change: bool
    ) -> ApiError | None:
        """Return the error in the target replicas, or None.

        Kafka: validateReplicas; for the replication factor ReplicationControlManager of 4.1 (KIP-860).
        """
        text = _error_in(target)
        if not text:
            adding = current.reassign_to(target).adding_replicas
            live = self._context.live_broker_ids
            if not live.issuperset(adding):
                text = (
                    f"Replica assignment has brokers that are not alive. Replica list: {_listed(adding)}, live broker "
                    f"list: Set({', '.join(map(str, sorted(live)))})"
                )
        if text:
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        factor = len(current.target_replicas)
        if factor and not allow_replication_factor_change and factor != len(target):
            return ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(target)}",
            )
        return None

    def _begin(self, partition: TopicPartition, reassignment: ReplicaAssignment) -> ApiError | None:
        if self._deletions.is_topic_queued_for_deletion(partition.topic):
            logger.info("Skipping reassignment of %s since the topic is currently being deleted", partition)
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
        if not self._context.replicas(partition):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
        try:
            self._advance(partition, reassignment)
        except ControllerMovedError:
            raise
        except ApiError as refused:
            return refused.as_value()
        except Exception:
            # The other partitions of the request can be moved all the same.
            logger.exception("Error completing reassignment of partition %s", partition)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    # -- what goes on

    def resume(
        self, brokers: Collection[int] | None = None, *, except_for: Collection[TopicPartition] = frozenset()
    ) -> None:
        """Continue the reassignments that an earlier controller left, or that wait for these brokers, which came up."""
        # A list, since `_advance` changes the set.
        for partition in sorted(self._context.partitions_being_reassigned.difference(except_for)):
            assignment = self._context.assignment(partition)
            if brokers is None or any(replica in brokers for replica in assignment.target_replicas):
                self._advance(partition, assignment)

    def on_isr_changed(self, partition: TopicPartition) -> None:
        """Check the reassignment of a moving partition whose in-sync replicas changed: it may be complete."""
        assignment = self._context.assignment(partition)
        if self._is_complete(partition, assignment):
            logger.info(
                "Target replicas %s have all caught up with the leader for reassigning partition %s",
                list(assignment.target_replicas),
                partition,
            )
            self._advance(partition, assignment)

    def _advance(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Run phase U, then A or B."""
        self._deletions.mark_topics_ineligible({partition.topic}, "topic reassignment in progress")
        self._record(partition, assignment)
        if self._is_complete(partition, assignment):
            self._complete(partition, assignment)
        else:
            # The leader first: it must know the new replicas before they fetch, or it rejects their fetches.
            self._send_next_epoch(partition, assignment)
            for replica in assignment.adding_replicas:
                self._replicas.handle_state_changes([PartitionAndReplica(partition, replica)], ReplicaState.NEW)

    def _record(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Run phase U."""
        current = self._context.assignment(partition)
        if current != assignment:
            unneeded = [replica for replica in current.replicas if replica not in assignment.replicas]
            self._context.update_assignment(partition, assignment)
            try:
                if unneeded:
                    self._lead_without(unneeded, partition, assignment)
                self._write(partition, assignment)
            except Exception:
                self._context.update_assignment(partition, current)
                raise
            self._stop(partition, unneeded)
        # From here on every change of the ISR becomes an event, and leads to `on_isr_changed`.
        self._watches.watch_partition_state(partition)
        self._context.partitions_being_reassigned.add(partition)

    def _lead_without(
        self, unneeded: Collection[int], partition: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        """Let a replica that stays lead, before those that an earlier reassignment was adding are deleted.

        Kafka 3.9 deletes them in any case: the partition has no leader afterwards, and has lost its records where only
        they were in sync. Kafka 4 refuses that (PartitionReassignmentRevert), with an exception for topics with unclean
        elections. Here such a topic gets one only if the last in-sync replica that stays is lost meanwhile. Raises
        ApiError: no replica that stays is in sync.
        """
        state = self._zk.topics.partition_states([partition]).get(partition)
        if state is None:
            return
        leadership = state.leader_and_isr
        is_kept = any(replica in leadership.isr for replica in assignment.replicas)
        if is_kept and leadership.leader in unneeded:
            # The leader may have taken replicas out of the ISR since: the election reads it again.
            is_kept = self._elect(partition, ElectionStrategy.OFFLINE)
        if not is_kept:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to change the reassignment of {partition}: it would require an unclean leader election, since "
                f"{_listed(leadership.isr)}, alone in sync, would be deleted, and {_listed(assignment.replicas)} stay",
            )

    def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Return whether all target replicas are in sync.

        Reading the store also sets the watch on the partition's state.
        """
        states = self._zk.topics.partition_states([partition])
        if not assignment.is_being_reassigned:
            return True
        return partition in states and set(assignment.target_replicas) <= set(states[partition].leader_and_isr.isr)

    def _complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Run phase B."""
        added = [PartitionAndReplica(partition, replica) for replica in assignment.adding_replicas]
        self._replicas.handle_state_changes(added, ReplicaState.ONLINE)
        completed = ReplicaAssignment(assignment.target_replicas)
        self._context.update_assignment(partition, completed)
        is_led = self._move_leader_if_required(partition, completed)
        if assignment.removing_replicas and not is_led:
            # A target replica has died, or has left the ISR a moment ago. Kafka deletes the leader all the same. Here
            # the next change of the ISR tries again, or the start of the broker.
            self._context.update_assignment(partition, assignment)
            return
        self._stop(partition, assignment.removing_replicas)
        # Last: until this write the store still names the removed replicas, so that a controller that takes over after
        # a crash stops and deletes them again.
        self._write(partition, completed)
        self._watches.unwatch_partition_state(partition)
        self._context.partitions_being_reassigned.discard(partition)
        if self._targets_in_store().get(partition) == tuple(completed.replicas):
            self._remove_from_store([partition])
        self._send_metadata_update([partition])
        self._deletions.resume_deletion_for_topics([partition.topic])

    def _move_leader_if_required(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Let a replica of the assignment lead, in the next epoch. Return False when none can."""
        leader = self._context.leadership[partition].leader_and_isr.leader
        if leader in assignment.replicas and self._context.is_replica_online(leader, partition):
            self._send_next_epoch(partition, assignment)
            return True
        logger.info(
            "Leader %d for partition %s being reassigned is not in the new list of replicas %s, or dead. Re-electing",
            leader,
            partition,
            list(assignment.replicas),
        )
        return self._elect(partition, ElectionStrategy.REASSIGN)

    def _elect(self, partition: TopicPartition, strategy: ElectionStrategy) -> bool:
        """Elect a leader among the replicas that the context has. Return whether there is one."""
        outcomes = self._partitions.handle_state_changes([partition], PartitionState.ONLINE, strategy)
        return isinstance(outcomes.get(partition), LeaderAndIsr)

    def _stop(self, partition: TopicPartition, removed: Iterable[int]) -> None:
        """Remove replicas from the ISR, stop them and delete them. A deletion that fails is not retried."""
        replicas = [PartitionAndReplica(partition, replica) for replica in removed]
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            self._replicas.handle_state_changes(replicas, state)

    def _write(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Write an assignment to the store.

        Raises StateChangeFailed: the topic is gone. Raises ControllerMovedError: the write was fenced.
        """
        topics = self._zk.topics
        while True:
            # From the store: partitions that were added since, of which this thread does not know yet, must stay.
            found = topics.assignments([partition.topic])
            if not found:
                raise StateChangeFailed(f"Cannot write the assignment of {partition}: the topic no longer exists")
            (stored,) = found
            whole = {**stored.assignment, partition: assignment}
            epoch_version = self._context.epoch_version
            try:
                topics.set_assignment(
                    partition.topic, stored.topic_id, whole, epoch_version, expected_version=stored.version
                )
                break
            except BadVersionError:
                logger.info(
                    "Topic %s got partitions while assignment %s was written; writing it again",
                    partition.topic,
                    assignment,
                )
        logger.info("Successfully updated assignment of partition %s to %s", partition, assignment)

    # -- the next leader epoch

    def _send_next_epoch(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Send the same leader in the next epoch, so that it takes the new list of replicas.

        Added replicas are marked as new, so that they may choose a log directory.
        Kafka: updateLeaderEpochAndSendRequest.
        """
        state = self._next_epoch(partition)
        self._batch.new_batch()
        self._batch.add_leader_and_isr(assignment.origin_replicas, partition, state, assignment, is_new=False)
        self._batch.add_leader_and_isr(assignment.adding_replicas, partition, state, assignment, is_new=True)
        self._batch.send()
        state_logger.info(
            "Sent LeaderAndIsr request %s with new replica assignment %s to leader %d for reassigned partition %s",
            state,
            assignment,
            state.leader_and_isr.leader,
            partition,
        )

    def _next_epoch(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch:
        """Write the same leadership in the next epoch.

        Raises StateChangeFailed: the store has no leadership, or that of a newer controller. Raises the StoreError of a
        write that failed.
        """
        while True:
            state = self._zk.topics.partition_states([partition]).get(partition)
            if state is None:
                raise StateChangeFailed(
                    f"Cannot update leader epoch for partition {partition} as leaderAndIsr path is empty. This could "
                    "mean we somehow tried to reassign a partition that doesn't exist"
                )
            if state.controller_epoch > self._context.epoch:
                raise StateChangeFailed.written_by_newer(self._context.epoch, state.controller_epoch)
            # Without an outcome the leader wrote its state meanwhile; the loop reads that and tries again.
            finished, _ = self._zk.topics.update_leader_and_isr(
                {partition: state.leader_and_isr.new_epoch()}, self._context.epoch, self._context.epoch_version
            )
            outcome = finished.get(partition)
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, LeaderAndIsr):
                written = LeaderIsrAndControllerEpoch(outcome, self._context.epoch)
                self._context.leadership[partition] = written
                return written


def _error_in(target: Sequence[int]) -> str:
    """Return what is wrong with target replicas, whichever brokers live; "" for nothing."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {_listed(target)}"
    if any(replica < 0 for replica in target):
        return f"Invalid broker id in replica list: {_listed(target)}"
    return ""


def _listed(replicas: Sequence[int]) -> str:
    """Return broker ids as Scala prints a sequence; of very many the first ones."""
    named = [str(replica) for replica in replicas[:_MOST_LISTED]]
    if len(replicas) > _MOST_LISTED:
        named.append(f"... {len(replicas)} in all")
    return f"ArrayBuffer({', '.join(named)})"
