"""The state machine of partitions: it elects leaders, writes them to the store, collects the requests to brokers.

Owned by the controller's thread, so no lock. The table in `state_tables` says which transitions are allowed and
what they need; `election` chooses leaders; this module reads, writes and sends.
Kafka: kafka.controller.ZkPartitionStateMachine.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from barnabas.controller.broker_request_batch import BrokerRequestBatch
from barnabas.controller.controller_context import ControllerConfig, ControllerContext, StateChangeFailed
from barnabas.controller.election import (
    ElectionResult,
    ElectionStrategy,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred_replica,
)
from barnabas.controller.state_tables import (
    PARTITION_TRANSITIONS,
    PartitionEffect,
    PartitionState,
    valid_previous_states,
)
from barnabas.metrics.meter import Meter
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import ControllerMovedError
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderIsrAndControllerEpoch

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")

# By partition: the leadership that was written, or the error why there is none.
ElectionOutcomes: TypeAlias = dict[TopicPartition, "LeaderAndIsr | Exception"]
_UNCLEAN_ELECTION = "unclean.leader.election.enable"


class PartitionStateMachine:
    """The machine with a `batch` of its own, as in Kafka, which is empty between calls."""

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        zk_client: KafkaZkClient,
        batch: BrokerRequestBatch,
        unclean_elections: Meter,
    ) -> None:
        self._config = config
        self._context = context
        self._zk = zk_client
        self._batch = batch
        self._unclean_elections = unclean_elections

    def startup(self) -> None:
        """Derive the states of all partitions from the store, and elect leaders where they are missing."""
        for partition in self._context.all_partitions:
            known = self._context.leadership.get(partition)
            if known is None:
                # The topic was created, and no controller has got as far as its first leader.
                state = PartitionState.NEW
            elif self._context.is_replica_online(known.leader_and_isr.leader, partition):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            self._context.partition_states[partition] = state
        self.trigger_online_partition_state_change()

    def trigger_online_partition_state_change(self, topic: str | None = None) -> ElectionOutcomes:
        """Try to bring new and offline partitions (of a topic) online, unless their topic is to be deleted."""
        waiting = self._context.partitions_in_states((PartitionState.OFFLINE, PartitionState.NEW), topic)
        partitions = [tp for tp in waiting if not self._context.is_topic_queued_for_deletion(tp.topic)]
        return self.handle_state_changes(partitions, PartitionState.ONLINE, ElectionStrategy.OFFLINE)

    def handle_state_changes(
        self, partitions: Sequence[TopicPartition], target: PartitionState, strategy: ElectionStrategy | None = None
    ) -> ElectionOutcomes:
        """Move partitions to `target`. A transition that is not allowed is logged, and the partition stays.

        Returns the outcomes of elections (not of initializations). Raises ControllerMovedError: a write was fenced. Any
        other failure is the outcome of every partition.
        """
        if not partitions:
            return {}
        try:
            self._batch.new_batch()
            outcomes = self._change_states(partitions, target, strategy)
            self._batch.send()
            return outcomes
        except ControllerMovedError:
            logger.exception("Controller moved to another broker when moving some partitions to %s state", target.value)
            raise
        except Exception as error:
            # As in Kafka, a failed election is an answer and not the end of the controller.
            logger.exception("Error while moving some partitions to %s state", target.value)
            return dict.fromkeys(partitions, error)

    def _change_states(
        self, partitions: Iterable[TopicPartition], target: PartitionState, strategy: ElectionStrategy | None
    ) -> ElectionOutcomes:
        """Change states without sending. Raises ValueError: no election strategy. Raises ControllerMovedError."""
        to_initialize: list[TopicPartition] = []
        to_elect: list[TopicPartition] = []
        for partition in partitions:
            state = self._context.partition_states.setdefault(partition, PartitionState.NON_EXISTENT)
            transition = PARTITION_TRANSITIONS[state, target]
            if transition is None:
                self._log_invalid_transition(partition, state, target)
            elif PartitionEffect.INITIALIZE_LEADERSHIP in transition.effects:
                to_initialize.append(partition)
            elif PartitionEffect.ELECT_LEADER in transition.effects:
                to_elect.append(partition)
            else:
                self._log_change(partition, state, transition.state)
                self._context.partition_states[partition] = transition.state
        for partition in self._initialize_leadership(to_initialize):
            self._go_online(partition)
        if not to_elect:
            return {}
        if strategy is None:
            raise ValueError("Election strategy is a required field when the target state is OnlinePartition")
        outcomes = self._elect_leaders(to_elect, strategy)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, LeaderAndIsr):
                self._go_online(partition)
        return outcomes

    def _go_online(self, partition: TopicPartition) -> None:
        self._log_change(partition, self._context.partition_states[partition], PartitionState.ONLINE)
        self._context.partition_states[partition] = PartitionState.ONLINE

    # -- new partitions

    def _initialize_leadership(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Write the first live replica as leader and all live ones as in sync.

        Return the partitions that were written.
        """
        states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        for partition in partitions:
            replicas = self._context.replicas(partition)
            live = [replica for replica in replicas if self._context.is_replica_online(replica, partition)]
            if live:
                leadership = LeaderAndIsr.initial(live[0], live)
                states[partition] = LeaderIsrAndControllerEpoch(leadership, self._context.epoch)
            else:
                self._log_failure(
                    partition,
                    StateChangeFailed(
                        f"assigned replicas are {list(replicas)}, live brokers are "
                        f"{sorted(self._context.live_broker_ids)}. No assigned replica is alive."
                    ),
                )
        if not states:
            return []
        written: list[TopicPartition] = []
        for partition, error in self._zk.topics.create_partition_states(states, self._context.epoch_version).items():
            if error is not None:
                self._log_failure(partition, error)
                continue
            state = states[partition]
            self._context.leadership[partition] = state
            # `is_new` allows a broker with a failed log directory to create the logs. Without the mark the logs may
            # exist in that directory, and must not be replaced by empty ones.
            self._batch.add_leader_and_isr(
                state.leader_and_isr.isr, partition, state, self._context.assignment(partition), is_new=True
            )
            written.append(partition)
        return written

    # -- elections

    def _elect_leaders(self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy) -> ElectionOutcomes:
        """Elect until every write has succeeded or failed for good.

        A leader may write the state of its partition meanwhile; then the election is repeated on the new state.
        """
        outcomes: ElectionOutcomes = {}
        remaining: Sequence[TopicPartition] = partitions
        while remaining:
            finished, remaining = self._try_to_elect_leaders(remaining, strategy)
            for partition, outcome in finished.items():
                if isinstance(outcome, Exception):
                    self._log_failure(partition, outcome)
            outcomes |= finished
            if remaining:
                logger.info("Retrying leader election with strategy %s for partitions %s", strategy.value, remaining)
        return outcomes

    def _try_to_elect_leaders(
        self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy
    ) -> tuple[ElectionOutcomes, list[TopicPartition]]:
        # Read from the store and not from the context: the leader may have changed its ISR since, and a choice of a
        # replica that is out of sync by now would lose records.
        current, outcomes = self._read_leadership(partitions)
        elected: dict[TopicPartition, ElectionResult] = {}
        new_leadership: dict[TopicPartition, LeaderAndIsr] = {}
        for result in self._elect(current, strategy):
            if result.leader_and_isr is None:
                outcomes[result.partition] = StateChangeFailed(
                    f"Failed to elect leader for partition {result.partition} under strategy {strategy.value}"
                )
            else:
                elected[result.partition] = result
                new_leadership[result.partition] = result.leader_and_isr
                # A leader from outside of the ISR: acknowledged records may be lost, which operators must see.
                if result.leader_and_isr.leader not in current[result.partition].isr:
                    self._unclean_elections.count += 1
        finished, to_retry = self._zk.topics.update_leader_and_isr(
            new_leadership, self._context.epoch, self._context.epoch_version
        )
        for partition, outcome in finished.items():
            outcomes[partition] = outcome
            if isinstance(outcome, LeaderAndIsr):
                state = LeaderIsrAndControllerEpoch(outcome, self._context.epoch)
                self._context.leadership[partition] = state
                self._batch.add_leader_and_isr(
                    elected[partition].recipients, partition, state, self._context.assignment(partition), is_new=False
                )
        return outcomes, to_retry

    def _read_leadership(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, LeaderAndIsr], ElectionOutcomes]:
        """Return the leaderships that the store has now, and the errors of partitions that cannot have an election."""
        current: dict[TopicPartition, LeaderAndIsr] = {}
        failed: ElectionOutcomes = {}
        states = self._zk.topics.partition_states(partitions)
        for partition in partitions:
            state = states.get(partition)
            if state is None:
                failed[partition] = StateChangeFailed(
                    f"LeaderAndIsr information doesn't exist for partition {partition} in "
                    f"{self._context.partition_states[partition].value} state"
                )
            elif state.controller_epoch > self._context.epoch:
                # This controller has been replaced and does not know it yet. The write below would be fenced anyway; a
                # controller that was paused for long is told here, with words.
                failed[partition] = StateChangeFailed(
                    f"Aborted leader election for partition {partition} since the LeaderAndIsr path was already "
                    f"written by another controller. This probably means that the current controller "
                    f"{self._config.broker_id} went through a soft failure and another controller was elected with "
                    f"epoch {state.controller_epoch}."
                )
            else:
                current[partition] = state.leader_and_isr
        return current, failed

    def _elect(
        self, current: Mapping[TopicPartition, LeaderAndIsr], strategy: ElectionStrategy
    ) -> list[ElectionResult]:
        context = self._context
        if strategy in (ElectionStrategy.OFFLINE, ElectionStrategy.OFFLINE_ALLOW_UNCLEAN):
            unclean = self._topics_with_unclean_election(current, strategy)
            return [
                elect_offline(
                    tp,
                    leadership,
                    context.replicas(tp),
                    partial(self._is_online, tp),
                    allow_unclean=tp.topic in unclean,
                )
                for tp, leadership in current.items()
            ]
        if strategy is ElectionStrategy.REASSIGN:
            return [
                elect_for_reassignment(tp, leadership, context.assignment(tp), partial(self._is_online, tp))
                for tp, leadership in current.items()
            ]
        if strategy is ElectionStrategy.PREFERRED_REPLICA:
            return [
                elect_preferred_replica(tp, leadership, context.replicas(tp), partial(self._is_online, tp))
                for tp, leadership in current.items()
            ]
        return [
            elect_for_controlled_shutdown(
                tp,
                leadership,
                context.replicas(tp),
                partial(self._is_online_or_shutting_down, tp),
                context.shutting_down_broker_ids,
            )
            for tp, leadership in current.items()
        ]

    def _is_online(self, partition: TopicPartition, replica: int) -> bool:
        return self._context.is_replica_online(replica, partition)

    def _is_online_or_shutting_down(self, partition: TopicPartition, replica: int) -> bool:
        return self._context.is_replica_online(replica, partition, include_shutting_down_brokers=True)

    def _topics_with_unclean_election(
        self, current: Mapping[TopicPartition, LeaderAndIsr], strategy: ElectionStrategy
    ) -> Collection[str]:
        """Return the topics that allow unclean elections. Settings are read only where no in-sync replica is live."""
        leaderless = {
            tp.topic
            for tp, leadership in current.items()
            if not any(self._context.is_replica_online(replica, tp) for replica in leadership.isr)
        }
        if strategy is ElectionStrategy.OFFLINE_ALLOW_UNCLEAN or not leaderless:
            return leaderless
        default = "true" if self._config.unclean_leader_election_enable() else "false"
        settings = self._zk.configs.topics(sorted(leaderless))
        return {
            topic for topic in leaderless if settings[topic].get(_UNCLEAN_ELECTION, default).strip().lower() == "true"
        }

    # -- logging

    def _log_change(self, partition: TopicPartition, state: PartitionState, target: PartitionState) -> None:
        if state_logger.isEnabledFor(logging.DEBUG):
            state_logger.debug(
                "[Controller id=%d epoch=%d] Changed partition %s from %s to %s",
                self._config.broker_id,
                self._context.epoch,
                partition,
                state.value,
                target.value,
            )

    def _log_invalid_transition(self, partition: TopicPartition, state: PartitionState, target: PartitionState) -> None:
        state_logger.error(
            "[Controller id=%d epoch=%d] Partition %s should be in one of %s states before moving to %s state. Instead "
            "it is in %s state",
            self._config.broker_id,
            self._context.epoch,
            partition,
            ",".join(previous.value for previous in valid_previous_states(PARTITION_TRANSITIONS, target)),
            target.value,
            state.value,
        )

    def _log_failure(self, partition: TopicPartition, error: Exception) -> None:
        state_logger.error(
            "[Controller id=%d epoch=%d] Failed to change state of partition %s from %s to OnlinePartition: %s",
            self._config.broker_id,
            self._context.epoch,
            partition,
            self._context.partition_states[partition].value,
            error,
        )
