"""Plays controller by raw protocol: tells a broker who leads what, in any version.

Made for a server of the test's own: its epoch is far above that of the broker's real controller, whose orders are
refused from the first of these on. Topics made here are in no store, only on the broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.protocol.uuid import ZERO_UUID
from tests.support.raw_client import RawClient

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 7, 4, 8
LEADER_AND_ISR_BY_TOPIC, LEADER_AND_ISR_BY_ID = 2, 5
STOP_REPLICA_BY_TOPIC, STOP_REPLICA_BY_STATE = 1, 3
UPDATE_METADATA_BY_TOPIC = 5
NO_EPOCH = -1
EPOCH = 1_000_000


class RawController:
    """A controller of `epoch` with the broker at the other end of `client` under it."""

    def __init__(self, client: RawClient, *, epoch: int = EPOCH, controller_id: int = 0) -> None:
        self.client = client
        self.epoch = epoch
        self.controller_id = controller_id

    def create(self, topic: str, *, partition: int = 0, topic_id: bytes = ZERO_UUID) -> None:
        """Have the broker lead a new partition alone, and know of it."""
        host, port = self.client.socket.getpeername()
        self.tell(topic, [broker_entry(0, host, port)], partition=partition, topic_id=topic_id)
        self.lead(topic, partition=partition, topic_id=topic_id)

    def lead(
        self,
        topic: str,
        *,
        partition: int = 0,
        leader: int = 0,
        leader_epoch: int = 1,
        isr: Sequence[int] = (0,),
        replicas: Sequence[int] = (0,),
        is_new: bool = True,
        topic_id: bytes = ZERO_UUID,
        version: int = LEADER_AND_ISR,
        broker_epoch: int = NO_EPOCH,
        partition_epoch: int | None = None,
    ) -> LeaderAndIsrResponse:
        """LeaderAndIsr of one partition; the partition epoch is the leader epoch unless it is given."""
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
            topic_name=topic if version < LEADER_AND_ISR_BY_TOPIC else "",
            partition_index=partition,
            controller_epoch=self.epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=list(isr),
            partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
            replicas=list(replicas),
            is_new=is_new,
        )
        request = LeaderAndIsrRequest(
            controller_id=self.controller_id, controller_epoch=self.epoch, broker_epoch=broker_epoch
        )
        if version < LEADER_AND_ISR_BY_TOPIC:
            request.ungrouped_partition_states = [state]
        else:
            request.topic_states = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic, topic_id, [state])]
        return self.client.call(request, version, LeaderAndIsrResponse)

    def stop(
        self,
        topic: str,
        *,
        partition: int = 0,
        delete: bool = True,
        leader_epoch: int = NO_EPOCH,
        version: int = STOP_REPLICA,
        broker_epoch: int = NO_EPOCH,
    ) -> StopReplicaResponse:
        """StopReplica of one partition."""
        request = StopReplicaRequest(
            controller_id=self.controller_id, controller_epoch=self.epoch, broker_epoch=broker_epoch
        )
        if version >= STOP_REPLICA_BY_STATE:
            state = StopReplicaRequest.StopReplicaPartitionState(partition, leader_epoch, delete)
            request.topic_states = [StopReplicaRequest.StopReplicaTopicState(topic, [state])]
        else:
            request.delete_partitions = delete
            if version >= STOP_REPLICA_BY_TOPIC:
                request.topics = [StopReplicaRequest.StopReplicaTopicV1(topic, [partition])]
            else:
                request.ungrouped_partitions = [StopReplicaRequest.StopReplicaPartitionV0(topic, partition)]
        return self.client.call(request, version, StopReplicaResponse)

    def tell(
        self,
        topic: str,
        brokers: Sequence[UpdateMetadataRequest.UpdateMetadataBroker],
        *,
        partition: int = 0,
        leader: int = 0,
        leader_epoch: int = 1,
        isr: Sequence[int] = (0,),
        replicas: Sequence[int] = (0,),
        topic_id: bytes = ZERO_UUID,
        version: int = UPDATE_METADATA,
        broker_epoch: int = NO_EPOCH,
    ) -> UpdateMetadataResponse:
        """UpdateMetadata of the live brokers (`broker_entry`) and one partition."""
        state = UpdateMetadataRequest.UpdateMetadataPartitionState(
            topic_name=topic if version < UPDATE_METADATA_BY_TOPIC else "",
            partition_index=partition,
            controller_epoch=self.epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=list(isr),
            zk_version=leader_epoch,
            replicas=list(replicas),
        )
        request = UpdateMetadataRequest(
            controller_id=self.controller_id,
            controller_epoch=self.epoch,
            broker_epoch=broker_epoch,
            live_brokers=list(brokers),
        )
        if version < UPDATE_METADATA_BY_TOPIC:
            request.ungrouped_partition_states = [state]
        else:
            request.topic_states = [UpdateMetadataRequest.UpdateMetadataTopicState(topic, topic_id, [state])]
        return self.client.call(request, version, UpdateMetadataResponse)


def broker_entry(
    broker_id: int, host: str, port: int, *, version: int = UPDATE_METADATA
) -> UpdateMetadataRequest.UpdateMetadataBroker:
    """A live broker with a plaintext listener, as this version of UpdateMetadata names it."""
    if version == 0:
        return UpdateMetadataRequest.UpdateMetadataBroker(id=broker_id, v0_host=host, v0_port=port)
    endpoint = UpdateMetadataRequest.UpdateMetadataEndpoint(port, host, "PLAINTEXT" if version >= 3 else "", 0)
    return UpdateMetadataRequest.UpdateMetadataBroker(id=broker_id, endpoints=[endpoint])
