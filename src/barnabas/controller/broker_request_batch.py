"""The requests that follow from a set of state changes, collected and then sent: one of a kind to each broker.

Owned by the controller's thread, so no lock. Requests are those of inter.broker.protocol.version 3.9: LeaderAndIsr 7,
UpdateMetadata 8, StopReplica 4, sent in this order. Kafka: kafka.controller.ControllerBrokerRequestBatch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.controller.controller_channel_manager import ControllerChannelManager
from barnabas.controller.controller_context import ControllerConfig, ControllerContext
from barnabas.controller.controller_events import (
    ControllerEvent,
    LeaderAndIsrResponseReceived,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderIsrAndControllerEpoch, ReplicaAssignment

logger = logging.getLogger(__name__)
# Kafka's name: an operator's settings for this logger keep working.
state_logger = logging.getLogger("state.change.logger")

# The ids of org.apache.kafka.common.security.auth.SecurityProtocol.
_SECURITY_PROTOCOL_IDS: Mapping[str, int] = {name: index for index, name in enumerate(SECURITY_PROTOCOLS)}


class BatchNotEmpty(Exception):
    """The error that state changes of an earlier batch were never sent: the controller then resigns."""


class _LeaderAndIsrEntry(NamedTuple):
    state: LeaderIsrAndControllerEpoch
    assignment: ReplicaAssignment
    is_new: bool


class _StopReplicaEntry(NamedTuple):
    leader_epoch: int
    delete: bool


class BrokerRequestBatch:
    """The requests collected between `new_batch` and `send`.

    put_event: gets the answers as controller events, on the threads of the channels.
    """

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        channels: ControllerChannelManager,
        put_event: Callable[[ControllerEvent], None],
    ) -> None:
        self._config = config
        self._context = context
        self._channels = channels
        self._put_event = put_event
        self._leader_and_isr: dict[int, dict[TopicPartition, _LeaderAndIsrEntry]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, _StopReplicaEntry]] = {}
        self._update_metadata_brokers: set[int] = set()
        self._update_metadata: dict[TopicPartition, UpdateMetadataRequest.UpdateMetadataPartitionState] = {}

    def new_batch(self) -> None:
        """Begin a batch. Raises BatchNotEmpty: the last batch was not sent."""
        if self._leader_and_isr or self._stop_replica or self._update_metadata_brokers:
            raise BatchNotEmpty(
                "Controller to broker state change requests batch is not empty while creating a new one"
            )

    def clear(self) -> None:
        """Drop the collected requests."""
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._update_metadata_brokers.clear()
        self._update_metadata.clear()

    # -- collecting

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        state: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Add the leader of a partition for its replicas, and its metadata for every live broker.

        A replica that was added as new stays new in this batch.
        """
        for broker_id in broker_ids:
            if broker_id >= 0:
                entries = self._leader_and_isr.setdefault(broker_id, {})
                already_new = partition in entries and entries[partition].is_new
                entries[partition] = _LeaderAndIsrEntry(state, assignment, is_new or already_new)
        # Every broker, since every broker answers Metadata requests.
        self.add_update_metadata(self._context.live_brokers, [partition])

    def add_stop_replica(self, broker_ids: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """Add the stop of replicas. A replica that is to be deleted stays so, whatever `delete` says now."""
        epoch = self._context.leader_epoch_to_stop(partition)
        for broker_id in broker_ids:
            if broker_id >= 0:
                entries = self._stop_replica.setdefault(broker_id, {})
                already_delete = partition in entries and entries[partition].delete
                entries[partition] = _StopReplicaEntry(epoch, delete or already_delete)

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Add the metadata of partitions, with the live brokers in any case.

        All brokers of a batch get all partitions of it. A partition that is being deleted has the leader -2.
        """
        self._update_metadata_brokers.update(broker_id for broker_id in broker_ids if broker_id >= 0)
        for partition in partitions:
            state = self._context.leadership.get(partition)
            if state is None:
                logger.info("Leader not yet assigned for partition %s. Skip sending UpdateMetadataRequest.", partition)
                continue
            leadership = state.leader_and_isr
            if self._context.is_topic_queued_for_deletion(partition.topic):
                leadership = LeaderAndIsr.during_delete(leadership.isr)
            replicas = self._context.replicas(partition)
            self._update_metadata[partition] = UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=leadership.leader,
                leader_epoch=leadership.leader_epoch,
                isr=list(leadership.isr),
                zk_version=leadership.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[r for r in replicas if not self._context.is_replica_online(r, partition)],
            )

    # -- sending

    def send(self) -> None:
        """Send the requests to those brokers that are up."""
        # Kafka's order. Leaders come first: a client that learns of a new leader should find it leading.
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()
        self.clear()

    def _send_leader_and_isr(self) -> None:
        for broker_id, entries in self._leader_and_isr.items():
            channel = self._channels.channel(broker_id)
            # A broker that is down is sent everything when it has registered again.
            if broker_id not in self._context.live_brokers or channel is None:
                continue
            leaders = {entry.state.leader_and_isr.leader for entry in entries.values()}
            becoming_leader = sum(e.state.leader_and_isr.leader == broker_id for e in entries.values())
            state_logger.info(
                "[Controller id=%d epoch=%d] Sending LeaderAndIsr request to broker %d with %d become-leader and %d "
                "become-follower partitions",
                self._config.broker_id,
                self._context.epoch,
                broker_id,
                becoming_leader,
                len(entries) - becoming_leader,
            )
            request = LeaderAndIsrRequest(
                controller_id=self._config.broker_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.broker_epochs[broker_id],
                topic_states=[
                    LeaderAndIsrRequest.LeaderAndIsrTopicState(
                        topic,
                        self._context.topic_ids.get(topic, ZERO_UUID),
                        [_leader_and_isr_state(tp, entries[tp]) for tp in partitions],
                    )
                    for topic, partitions in _by_topic(entries).items()
                ],
                live_leaders=self._live_leaders(leaders),
            )
            self._channels.sent(broker_id)
            channel.leader_and_isr(request, partial(self._leader_and_isr_answered, broker_id))

    def _live_leaders(self, leaders: Collection[int]) -> list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader]:
        listener = self._config.inter_broker_listener_name
        return [
            LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker.id, endpoint.host, endpoint.port)
            for broker in self._context.live_brokers.values()
            if broker.id in leaders
            for endpoint in broker.endpoints
            if endpoint.listener_name == listener
        ]

    def _send_update_metadata(self) -> None:
        brokers = [b for b in sorted(self._update_metadata_brokers) if b in self._context.live_brokers]
        if not brokers:
            return
        state_logger.info(
            "[Controller id=%d epoch=%d] Sending UpdateMetadata request to brokers %s for %d partitions",
            self._config.broker_id,
            self._context.epoch,
            brokers,
            len(self._update_metadata),
        )
        # Made once for all brokers: their requests differ in the broker epoch only.
        topic_states = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic, self._context.topic_ids.get(topic, ZERO_UUID), [self._update_metadata[tp] for tp in partitions]
            )
            for topic, partitions in _by_topic(self._update_metadata).items()
        ]
        live_brokers = [_update_metadata_broker(broker) for broker in self._context.live_brokers.values()]
        for broker_id in brokers:
            channel = self._channels.channel(broker_id)
            if channel is not None:
                request = UpdateMetadataRequest(
                    controller_id=self._config.broker_id,
                    controller_epoch=self._context.epoch,
                    broker_epoch=self._context.broker_epochs[broker_id],
                    topic_states=topic_states,
                    live_brokers=live_brokers,
                )
                self._channels.sent(broker_id)
                channel.update_metadata(request, partial(self._update_metadata_answered, broker_id))

    def _send_stop_replica(self) -> None:
        for broker_id, entries in self._stop_replica.items():
            channel = self._channels.channel(broker_id)
            if broker_id not in self._context.live_brokers or channel is None:
                continue
            state_logger.info(
                "[Controller id=%d epoch=%d] Sending StopReplica request for %d replicas to broker %d",
                self._config.broker_id,
                self._context.epoch,
                len(entries),
                broker_id,
            )
            request = StopReplicaRequest(
                controller_id=self._config.broker_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.broker_epochs[broker_id],
                topic_states=[
                    StopReplicaRequest.StopReplicaTopicState(
                        topic,
                        [
                            StopReplicaRequest.StopReplicaPartitionState(
                                tp.partition, entries[tp].leader_epoch, entries[tp].delete
                            )
                            for tp in partitions
                        ],
                    )
                    for topic, partitions in _by_topic(entries).items()
                ],
            )
            deleting = frozenset(tp for tp, entry in entries.items() if entry.delete)
            channel.stop_replica(request, partial(self._stop_replica_answered, broker_id, deleting))

    # -- answers, on the channels' threads

    def _leader_and_isr_answered(self, broker_id: int, response: LeaderAndIsrResponse) -> None:
        self._put_event(LeaderAndIsrResponseReceived(broker_id, response))

    def _update_metadata_answered(self, broker_id: int, response: UpdateMetadataResponse) -> None:
        self._put_event(UpdateMetadataResponseReceived(broker_id, response))

    def _stop_replica_answered(
        self, broker_id: int, deleting: frozenset[TopicPartition], response: StopReplicaResponse
    ) -> None:
        # Only a deletion waits for its answer; the others would fill the queue for nothing.
        if deleting:
            self._put_event(StopReplicaResponseReceived(broker_id, response, deleting))


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition)
    return grouped


def _leader_and_isr_state(
    partition: TopicPartition, entry: _LeaderAndIsrEntry
) -> LeaderAndIsrRequest.LeaderAndIsrPartitionState:
    leadership = entry.state.leader_and_isr
    return LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        topic_name=partition.topic,
        partition_index=partition.partition,
        controller_epoch=entry.state.controller_epoch,
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.isr),
        partition_epoch=leadership.partition_epoch,
        replicas=list(entry.assignment.replicas),
        adding_replicas=list(entry.assignment.adding_replicas),
        removing_replicas=list(entry.assignment.removing_replicas),
        is_new=entry.is_new,
        leader_recovery_state=int(leadership.leader_recovery_state),
    )


def _update_metadata_broker(broker: BrokerInfo) -> UpdateMetadataRequest.UpdateMetadataBroker:
    return UpdateMetadataRequest.UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=_SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
    )
