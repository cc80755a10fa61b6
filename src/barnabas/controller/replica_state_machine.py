"""The state machine of replicas: it starts and stops them on brokers, and removes them from the in-sync replicas.

Owned by the controller's thread, so no lock. The table in `state_tables` says which transitions are allowed and what
they need; this module reads, writes and sends. Kafka: kafka.controller.ZkReplicaStateMachine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from barnabas.controller.broker_request_batch import BrokerRequestBatch
from barnabas.controller.controller_context import (
    ControllerConfig,
    ControllerContext,
    PartitionAndReplica,
    StateChangeFailed,
)
from barnabas.controller.state_tables import (
    REPLICA_TRANSITIONS,
    ReplicaEffect,
    ReplicaState,
    ReplicaTransition,
    valid_previous_states,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import ControllerMovedError
from barnabas.zk.znodes.topic_zk_data import NO_LEADER, LeaderAndIsr, LeaderIsrAndControllerEpoch

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")


class ReplicaStateMachine:
    """The machine with a `batch` of its own, as in Kafka, which is empty between calls."""

    def __init__(
        self, config: ControllerConfig, context: ControllerContext, zk_client: KafkaZkClient, batch: BrokerRequestBatch
    ) -> None:
        self._config = config
        self._context = context
        self._zk = zk_client
        self._batch = batch
        # The effects on one replica alone. STOP_AND_LEAVE_ISR is done for all replicas of a broker at once.
        self._effects: Final[Mapping[ReplicaEffect, Callable[[PartitionAndReplica], None]]] = {
            ReplicaEffect.START_AS_FOLLOWER: self._start_as_follower,
            ReplicaEffect.ENSURE_ASSIGNED: self._ensure_assigned,
            ReplicaEffect.SEND_LEADER_AND_ISR: self._send_leader_and_isr,
            ReplicaEffect.STOP_AND_DELETE: self._stop_and_delete,
            ReplicaEffect.FORGET: self._forget,
        }

    def startup(self) -> None:
        """Derive the states of all replicas from the live brokers, and send those brokers their replicas."""
        online, offline = self._context.online_and_offline_replicas()
        self._context.replica_states.update(dict.fromkeys(online, ReplicaState.ONLINE))
        # If their topic is to be deleted, the deletion must not begin before their brokers are back.
        self._context.replica_states.update(dict.fromkeys(offline, ReplicaState.DELETION_INELIGIBLE))
        self.handle_state_changes(online, ReplicaState.ONLINE)
        self.handle_state_changes(offline, ReplicaState.OFFLINE)

    def handle_state_changes(self, replicas: Sequence[PartitionAndReplica], target: ReplicaState) -> None:
        """Move replicas to `target`. A transition that is not allowed is logged, and the replica stays.

        Raises ControllerMovedError: a write was fenced. Any other failure is logged.
        """
        if not replicas:
            return
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.replica, []).append(replica)
        try:
            self._batch.new_batch()
            for broker_id, of_broker in by_broker.items():
                self._change_states(broker_id, of_broker, target)
            self._batch.send()
        except ControllerMovedError:
            logger.exception("Controller moved to another broker when moving some replicas to %s state", target.value)
            raise
        except Exception:
            # As in Kafka, the next event of the broker or the topic retries.
            logger.exception("Error while moving some replicas to %s state", target.value)

    def _change_states(self, broker_id: int, replicas: Iterable[PartitionAndReplica], target: ReplicaState) -> None:
        leaving_isr: list[PartitionAndReplica] = []
        for replica in replicas:
            state = self._context.replica_states.setdefault(replica, ReplicaState.NON_EXISTENT)
            transition = REPLICA_TRANSITIONS[state, target]
            if transition is None:
                self._log_invalid_transition(replica, state, target)
            elif ReplicaEffect.STOP_AND_LEAVE_ISR in transition.effects:
                leaving_isr.append(replica)
            else:
                self._carry_out(replica, state, transition)
        if leaving_isr:
            self._stop_and_leave_isr(broker_id, leaving_isr)

    def _carry_out(self, replica: PartitionAndReplica, state: ReplicaState, transition: ReplicaTransition) -> None:
        try:
            for effect in transition.effects:
                self._effects[effect](replica)
        except StateChangeFailed as error:
            self._log_failure(replica, state, transition.state, error)
            return
        if transition.state is ReplicaState.NON_EXISTENT:
            del self._context.replica_states[replica]
        else:
            self._context.replica_states[replica] = transition.state

    # -- effects on one replica

    def _start_as_follower(self, replica: PartitionAndReplica) -> None:
        """Add the order to follow for a new replica. Raises StateChangeFailed: the replica is the leader."""
        known = self._context.leadership.get(replica.partition)
        if known is None:
            return
        if known.leader_and_isr.leader == replica.replica:
            raise StateChangeFailed(
                f"Replica {replica.replica} for partition {replica.partition} cannot be moved to NewReplica state as "
                "it is being requested to become leader"
            )
        assignment = self._context.assignment(replica.partition)
        self._batch.add_leader_and_isr([replica.replica], replica.partition, known, assignment, is_new=True)

    def _ensure_assigned(self, replica: PartitionAndReplica) -> None:
        assignment = self._context.assignment(replica.partition)
        if replica.replica not in assignment.replicas:
            logger.error("Adding replica (%d) that is not part of the assignment %s", replica.replica, assignment)
            self._context.update_assignment(
                replica.partition, type(assignment)((*assignment.replicas, replica.replica))
            )

    def _send_leader_and_isr(self, replica: PartitionAndReplica) -> None:
        known = self._context.leadership.get(replica.partition)
        if known is not None:
            assignment = self._context.assignment(replica.partition)
            self._batch.add_leader_and_isr([replica.replica], replica.partition, known, assignment, is_new=False)

    def _stop_and_delete(self, replica: PartitionAndReplica) -> None:
        self._batch.add_stop_replica([replica.replica], replica.partition, delete=True)

    def _forget(self, replica: PartitionAndReplica) -> None:
        assignment = self._context.assignment(replica.partition)
        self._context.update_assignment(replica.partition, assignment.remove_replica(replica.replica))

    # -- going offline

    def _stop_and_leave_isr(self, broker_id: int, replicas: Sequence[PartitionAndReplica]) -> None:
        for replica in replicas:
            self._batch.add_stop_replica([broker_id], replica.partition, delete=False)
        led = [replica for replica in replicas if replica.partition in self._context.leadership]
        changed = self._remove_from_isr(broker_id, [replica.partition for replica in led])
        for partition, state in changed.items():
            if not self._context.is_topic_queued_for_deletion(partition.topic):
                others = [replica for replica in self._context.replicas(partition) if replica != broker_id]
                self._batch.add_leader_and_isr(
                    others, partition, state, self._context.assignment(partition), is_new=False
                )
            self._context.replica_states[PartitionAndReplica(partition, broker_id)] = ReplicaState.OFFLINE
        for replica in replicas:
            if replica.partition not in self._context.leadership:
                self._batch.add_update_metadata(self._context.live_brokers, [replica.partition])
                self._context.replica_states[replica] = ReplicaState.OFFLINE

    def _remove_from_isr(
        self, replica_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Remove a replica from the ISR of partitions. Return the states of the partitions whose ISR lacks it now."""
        results: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        remaining = list(partitions)
        while remaining:
            # A leader may write its ISR between the read and the write: what remains is read again.
            finished, remaining = self._try_to_remove_from_isr(replica_id, remaining)
            for partition, outcome in finished.items():
                if isinstance(outcome, LeaderAndIsr):
                    state = LeaderIsrAndControllerEpoch(outcome, self._context.epoch)
                    self._context.leadership[partition] = state
                    results[partition] = state
                else:
                    replica = PartitionAndReplica(partition, replica_id)
                    self._log_failure(replica, self._context.replica_states[replica], ReplicaState.OFFLINE, outcome)
        return results

    def _try_to_remove_from_isr(
        self, replica_id: int, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, LeaderAndIsr | Exception], list[TopicPartition]]:
        outcomes: dict[TopicPartition, LeaderAndIsr | Exception] = {}
        adjusted: dict[TopicPartition, LeaderAndIsr] = {}
        states = self._zk.topics.partition_states(partitions)
        for partition in partitions:
            state = states.get(partition)
            if state is None:
                if not self._context.is_topic_queued_for_deletion(partition.topic):
                    outcomes[partition] = StateChangeFailed(
                        f"Failed to change state of replica {replica_id} for partition {partition} since the leader "
                        "and isr path in zookeeper is empty"
                    )
            elif state.controller_epoch > self._context.epoch:
                outcomes[partition] = StateChangeFailed.written_by_newer(self._context.epoch, state.controller_epoch)
            elif replica_id not in state.leader_and_isr.isr:
                # Nothing to write; the other replicas are still sent the state, which they may have missed.
                outcomes[partition] = state.leader_and_isr
            else:
                adjusted[partition] = _without_replica(state.leader_and_isr, replica_id)
        finished, to_retry = self._zk.topics.update_leader_and_isr(
            adjusted, self._context.epoch, self._context.epoch_version
        )
        return outcomes | finished, to_retry

    # -- logging

    def _log_invalid_transition(self, replica: PartitionAndReplica, state: ReplicaState, target: ReplicaState) -> None:
        previous = ",".join(valid.value for valid in valid_previous_states(REPLICA_TRANSITIONS, target))
        error = StateChangeFailed(
            f"Replica {replica} should be in the {previous} states before moving to {target.value} state. Instead it "
            f"is in {state.value} state"
        )
        self._log_failure(replica, state, target, error)

    def _log_failure(
        self, replica: PartitionAndReplica, state: ReplicaState, target: ReplicaState, error: Exception
    ) -> None:
        state_logger.error(
            "[Controller id=%d epoch=%d] State change of replica %d for partition %s from %s to %s failed: %s",
            self._config.broker_id,
            self._context.epoch,
            replica.replica,
            replica.partition,
            state.value,
            target.value,
            error,
        )


def _without_replica(leadership: LeaderAndIsr, replica_id: int) -> LeaderAndIsr:
    """Return a leadership without a replica. The last in-sync replica stays in the ISR: it alone may lead again."""
    leader = NO_LEADER if leadership.leader == replica_id else leadership.leader
    if len(leadership.isr) == 1:
        return leadership.new_leader_and_isr(leader, leadership.isr)
    return leadership.new_leader_and_isr(leader, [replica for replica in leadership.isr if replica != replica_id])
