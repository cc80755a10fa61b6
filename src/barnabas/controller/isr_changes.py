"""Changes of in-sync replicas that leaders ask for (AlterPartition, KIP-497) or have written themselves.

A part of the controller, on its thread, so no lock; called only while this broker is the controller. Late: imported
with the first change.
Kafka: KafkaController.processAlterPartition, processIsrChangeNotification.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from barnabas.controller.controller_context import ControllerContext
from barnabas.controller.controller_events import AlterPartitionReceived, Signal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState

logger = logging.getLogger(__name__)

SendUpdateMetadata = Callable[[Iterable[int], Iterable[TopicPartition]], None]
# AlterPartition v2: topic ids instead of names, and the error INELIGIBLE_REPLICA (KIP-841).
_FIRST_VERSION_WITH_TOPIC_IDS = 2
# AlterPartition v3: the in-sync replicas with their broker epochs (KIP-903).
_FIRST_VERSION_WITH_BROKER_EPOCHS = 3
# Brokers of Apache Kafka with ZooKeeper name no epochs.
_UNKNOWN_BROKER_EPOCH = -1


class _Wanted(NamedTuple):
    """The leadership that a leader asks for. broker_epochs: of the in-sync replicas whose epochs the leader knows."""

    leadership: LeaderAndIsr
    broker_epochs: Mapping[int, int]


class IsrChanges:
    """The handlers of leaders' changes: each is checked against the controller's context, written, sent to brokers.

    on_isr_changed: called for each partition whose in-sync replicas changed, when the brokers have been sent it.
    """

    def __init__(
        self,
        context: ControllerContext,
        zk_client: KafkaZkClient,
        send_update_metadata: SendUpdateMetadata,
        on_isr_changed: Callable[[TopicPartition], None],
    ) -> None:
        self._context = context
        self._zk = zk_client
        self._send_update_metadata = send_update_metadata
        self._on_isr_changed = on_isr_changed

    def on_alter_partition(self, event: AlterPartitionReceived) -> None:
        """Handle AlterPartition. The caller answers the leader when this raises before it has answered."""
        response = self._alter(event.request, event.version)
        # The answer first: the leader waits for it, while a reassignment that goes on may take long.
        event.callback(response)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    self._on_isr_changed(TopicPartition(topic.topic_name, partition.partition_index))

    def on_isr_change_notification(self, _event: Signal) -> None:
        """Read again the partition states that leaders wrote, and send them to every broker."""
        names = self._zk.isr_change_notifications()
        try:
            known = self._zk.partitions_of_isr_changes(names) & self._context.leadership.keys()
            states = self._zk.topics.partition_states(known)
            self._context.leadership.update(states)
            if states:
                self._send_update_metadata(self._context.live_brokers, list(states))
            for partition in states:
                self._on_isr_changed(partition)
        finally:
            # Only the notices that were read: a later one has fired the watch again and is another event.
            self._zk.delete_isr_change_notifications(self._context.epoch_version, names)

    def _alter(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        epoch = self._context.broker_epochs.get(request.broker_id)
        if epoch is None or epoch != request.broker_epoch:
            logger.info(
                "Ignoring AlterPartition due to stale broker epoch %d and local broker epoch %s for broker %d",
                request.broker_epoch,
                epoch,
                request.broker_id,
            )
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        unknown: list[AlterPartitionResponse.TopicData] = []
        wanted: dict[TopicPartition, _Wanted] = {}
        for topic in request.topics:
            by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
            name = self._context.topic_names.get(topic.topic_id) if by_id else topic.topic_name
            if name is None:
                unknown.append(_unknown_topic(topic))
                continue
            for partition in topic.partitions:
                wanted[TopicPartition(name, partition.partition_index)] = _wanted(request.broker_id, partition, version)
        return self._response(self._apply(wanted, version), unknown)

    def _apply(
        self, wanted: dict[TopicPartition, _Wanted], version: int
    ) -> dict[TopicPartition, LeaderAndIsr | ErrorCode]:
        results: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        accepted: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, asked in wanted.items():
            verdict = self._validate(partition, asked, version)
            if verdict is None:
                accepted[partition] = asked.leadership
            else:
                results[partition] = verdict
        # The partition epoch is the expected version of the znode: a write of another broker in between fails this one.
        finished, to_retry = self._zk.topics.update_leader_and_isr(
            accepted, self._context.epoch, self._context.epoch_version
        )
        for partition, outcome in finished.items():
            if isinstance(outcome, LeaderAndIsr):
                results[partition] = outcome
                self._context.leadership[partition] = LeaderIsrAndControllerEpoch(outcome, self._context.epoch)
            else:
                logger.error("Failed to update ISR for partition %s: %s", partition, outcome)
                results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
        for partition in to_retry:
            logger.info("Failed to update ISR for partition %s, bad ZK version.", partition)
            results[partition] = ErrorCode.INVALID_UPDATE_VERSION
        written = [partition for partition, outcome in finished.items() if isinstance(outcome, LeaderAndIsr)]
        self._send_update_metadata(self._context.live_brokers, written)
        return results

    def _validate(self, partition: TopicPartition, asked: _Wanted, version: int) -> LeaderAndIsr | ErrorCode | None:
        """Return None if a change may be written; else an error, or the current leadership if that is asked for."""
        new = asked.leadership
        known = self._context.leadership.get(partition)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        current = known.leader_and_isr
        if new.partition_epoch > current.partition_epoch or new.leader_epoch > current.leader_epoch:
            # The leader has a newer state than this controller, so another controller must have written it.
            return ErrorCode.NOT_CONTROLLER
        if new.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        # The leader repeats a request whose answer was lost: the change is written, so it gets success and the epoch.
        if _differs_only_in_partition_epoch(new, current):
            return current
        if new.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        # A leader elected uncleanly is alone in sync until it has recovered, and recovers only once (KIP-704).
        recovering = new.leader_recovery_state is LeaderRecoveryState.RECOVERING
        if recovering and (len(new.isr) > 1 or current.leader_recovery_state is LeaderRecoveryState.RECOVERED):
            return ErrorCode.INVALID_REQUEST
        # KIP-841: a broker that is shutting down must not join, or the ISR would lose it again in a moment. KIP-903: a
        # broker that has returned since its fetch may have an emptied disk.
        if not set(new.isr) <= self._context.live_broker_ids or self._has_returned_broker(asked.broker_epochs):
            by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
            return ErrorCode.INELIGIBLE_REPLICA if by_id else ErrorCode.OPERATION_NOT_ATTEMPTED
        return None

    def _has_returned_broker(self, broker_epochs: Mapping[int, int]) -> bool:
        known = self._context.broker_epochs
        return any(known.get(broker_id) != epoch for broker_id, epoch in broker_epochs.items())

    def _response(
        self, results: dict[TopicPartition, LeaderAndIsr | ErrorCode], unknown: list[AlterPartitionResponse.TopicData]
    ) -> AlterPartitionResponse:
        topics: dict[str, AlterPartitionResponse.TopicData] = {}
        for partition, result in results.items():
            topic = topics.setdefault(
                partition.topic,
                AlterPartitionResponse.TopicData(
                    topic_name=partition.topic, topic_id=self._context.topic_ids.get(partition.topic, ZERO_UUID)
                ),
            )
            answer = AlterPartitionResponse.PartitionData(partition_index=partition.partition)
            if isinstance(result, LeaderAndIsr):
                answer.leader_id = result.leader
                answer.leader_epoch = result.leader_epoch
                answer.isr = list(result.isr)
                answer.leader_recovery_state = int(result.leader_recovery_state)
                answer.partition_epoch = result.partition_epoch
            else:
                answer.error_code = int(result)
            topic.partitions.append(answer)
        return AlterPartitionResponse(topics=[*unknown, *topics.values()])


def _differs_only_in_partition_epoch(new: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    return new.with_partition_epoch(current.partition_epoch) == current


def _unknown_topic(topic: AlterPartitionRequest.TopicData) -> AlterPartitionResponse.TopicData:
    partitions = [
        AlterPartitionResponse.PartitionData(
            partition_index=partition.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for partition in topic.partitions
    ]
    return AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=partitions)


def _wanted(leader: int, partition: AlterPartitionRequest.PartitionData, version: int) -> _Wanted:
    states = partition.new_isr_with_epochs if version >= _FIRST_VERSION_WITH_BROKER_EPOCHS else ()
    leadership = LeaderAndIsr(
        leader,
        partition.leader_epoch,
        tuple(state.broker_id for state in states) if states else tuple(partition.new_isr),
        LeaderRecoveryState(partition.leader_recovery_state),
        partition.partition_epoch,
    )
    epochs = {state.broker_id: state.broker_epoch for state in states if state.broker_epoch != _UNKNOWN_BROKER_EPOCH}
    return _Wanted(leadership, epochs)
