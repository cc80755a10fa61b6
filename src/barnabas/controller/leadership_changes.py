"""Changes of leadership on request: preferred and unclean elections, rebalancing, controlled shutdown.

A part of the controller, on its thread, so no lock.
Kafka: KafkaController.onReplicaElection, checkAndTriggerAutoLeaderRebalance, doControlledShutdown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from barnabas.controller.controller_context import PartitionAndReplica, StateChangeFailed
from barnabas.controller.controller_environment import ControllerEnvironment, StateMachines
from barnabas.controller.controller_events import ElectionTrigger
from barnabas.controller.election import ElectionStrategy, preferred_replica_leader
from barnabas.controller.partition_state_machine import ElectionOutcomes
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.store.errors import ControllerMovedError
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr

logger = logging.getLogger(__name__)


class LeadershipChanges:
    """The elections on request. election_done: called when an election that the store asked for is over."""

    def __init__(
        self, environment: ControllerEnvironment, machines: StateMachines, election_done: Callable[[], None]
    ) -> None:
        self._config = environment.config
        self._context = environment.context
        self._partitions = machines.partitions
        self._replicas = machines.replicas
        self._batch = machines.batch
        self._election_done = election_done

    # -- elections

    def elect(
        self, wanted: Collection[TopicPartition], election_type: ElectionType, trigger: ElectionTrigger
    ) -> dict[TopicPartition, int | ApiError]:
        """Elect leaders where needed. Return by partition the leader, or the error why there was no election."""
        results: dict[TopicPartition, int | ApiError] = {}
        electable: list[TopicPartition] = []
        known = set(self._context.all_partitions)
        for partition in wanted:
            if partition not in known:
                results[partition] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            elif self._context.is_topic_queued_for_deletion(partition.topic):
                results[partition] = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif self._is_election_needed(partition, election_type):
                electable.append(partition)
            else:
                results[partition] = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        for partition, outcome in self.run_election(electable, election_type, trigger).items():
            results[partition] = _election_result(outcome, election_type)
        return results

    def _is_election_needed(self, partition: TopicPartition, election_type: ElectionType) -> bool:
        known = self._context.leadership.get(partition)
        leader = None if known is None else known.leader_and_isr.leader
        if election_type is ElectionType.PREFERRED:
            return leader != self._context.replicas(partition)[0]
        return leader is None or not self._context.is_live_broker(leader)

    def run_election(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, trigger: ElectionTrigger
    ) -> ElectionOutcomes:
        """Run an election. It is unclean only if an administrator asked for that. Kafka: onReplicaElection."""
        logger.info(
            "Starting replica leader election (%s) for partitions %s triggered by %s",
            election_type.name,
            ",".join(map(str, partitions)),
            trigger.value,
        )
        if election_type is ElectionType.PREFERRED:
            strategy = ElectionStrategy.PREFERRED_REPLICA
        elif trigger is ElectionTrigger.ADMIN_CLIENT:
            strategy = ElectionStrategy.OFFLINE_ALLOW_UNCLEAN
        else:
            strategy = ElectionStrategy.OFFLINE
        try:
            outcomes = self._partitions.handle_state_changes(list(partitions), PartitionState.ONLINE, strategy)
            if trigger is not ElectionTrigger.ADMIN_CLIENT:
                for partition, outcome in outcomes.items():
                    if isinstance(outcome, Exception):
                        logger.error(
                            "Error completing replica leader election (%s) for partition %s: %s",
                            election_type.name,
                            partition,
                            outcome,
                        )
            return outcomes
        finally:
            if trigger is ElectionTrigger.STORE:
                self._election_done()

    def rebalance(self) -> None:
        """Elect the preferred leaders of each broker that leads too few of those it should.

        Nothing is done while partitions are being reassigned, since their leaders move anyway.
        """
        if self._context.partitions_being_reassigned:
            return
        by_preferred: dict[int, list[TopicPartition]] = {}
        for partition in self._context.all_partitions:
            replicas = self._context.replicas(partition)
            if replicas and not self._context.is_topic_queued_for_deletion(partition.topic):
                by_preferred.setdefault(replicas[0], []).append(partition)
        allowed = self._config.leader_imbalance_per_broker_percentage / 100
        for broker_id, partitions in by_preferred.items():
            elsewhere = [tp for tp in partitions if self._is_led_by_another(tp, broker_id)]
            if len(elsewhere) / len(partitions) > allowed:
                # Only partitions whose election can succeed: the others would fail, and be logged, at every check.
                candidates = [tp for tp in elsewhere if self._can_preferred_replica_lead(tp)]
                self.run_election(candidates, ElectionType.PREFERRED, ElectionTrigger.AUTO)

    def _is_led_by_another(self, partition: TopicPartition, broker_id: int) -> bool:
        known = self._context.leadership.get(partition)
        return known is not None and known.leader_and_isr.leader != broker_id

    def _can_preferred_replica_lead(self, partition: TopicPartition) -> bool:
        replicas = self._context.replicas(partition)
        live = [replica for replica in replicas if self._context.is_replica_online(replica, partition)]
        isr = self._context.leadership[partition].leader_and_isr.isr
        return preferred_replica_leader(replicas, isr, live) is not None

    # -- controlled shutdown

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> set[TopicPartition]:
        """Move the leaderships of a broker to other brokers, and return the partitions that it still leads.

        Partitions with one replica stay where they are. The epoch -1 is not checked. Raises ApiError:
        BROKER_NOT_AVAILABLE when the broker is not registered, STALE_BROKER_EPOCH when it has registered again since.
        """
        current_epoch = self._context.broker_epochs.get(broker_id)
        if current_epoch is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
        if -1 != broker_epoch < current_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker "
                f"{broker_id}. Current broker epoch is {current_epoch}.",
            )
        logger.info("Shutting down broker %d", broker_id)
        # From here on the broker is elected for nothing, also if this attempt leaves partitions with it.
        self._context.shutting_down_broker_ids.add(broker_id)
        replicated = [
            tp
            for tp in self._context.partitions_on_broker(broker_id)
            if len(self._context.replicas(tp)) > 1
            and tp in self._context.leadership
            and not self._context.is_topic_queued_for_deletion(tp.topic)
        ]
        led = [tp for tp in replicated if self._context.leadership[tp].leader_and_isr.leader == broker_id]
        led_before = set(led)
        followed = [tp for tp in replicated if tp not in led_before]
        self._partitions.handle_state_changes(led, PartitionState.ONLINE, ElectionStrategy.CONTROLLED_SHUTDOWN)
        # Stopped before they leave the ISR below: a follower that went on fetching would soon join it again.
        self._batch.new_batch()
        for partition in followed:
            self._batch.add_stop_replica([broker_id], partition, delete=False)
        self._batch.send()
        self._replicas.handle_state_changes(
            [PartitionAndReplica(tp, broker_id) for tp in followed], ReplicaState.OFFLINE
        )
        return set(self._context.partitions_led_by(broker_id))


def _election_result(outcome: LeaderAndIsr | Exception, election_type: ElectionType) -> int | ApiError:
    if isinstance(outcome, LeaderAndIsr):
        return outcome.leader
    if isinstance(outcome, StateChangeFailed):
        code = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if election_type is ElectionType.PREFERRED
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        return ApiError(code, str(outcome))
    if isinstance(outcome, ApiError):
        return outcome
    if isinstance(outcome, ControllerMovedError):
        return ApiError(ErrorCode.NOT_CONTROLLER)
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
