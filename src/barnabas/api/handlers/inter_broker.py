"""The controller's orders in a ZooKeeper-mode cluster. LeaderAndIsr: v0-7. StopReplica: v0-4. UpdateMetadata: v0-8.

Not brief: they open, close and delete logs. `api.origins` says where they may come from; the controller in
this process sends them over the network like any other. A request meant for an earlier registration of this broker is
refused whole (STALE_BROKER_EPOCH), one of an earlier controller by the orders (STALE_CONTROLLER_EPOCH). Names that no
topic can have are refused: they would become directories.

Old versions are converted to the layout of the newest first:

LeaderAndIsr v2: partitions grouped by topic.
LeaderAndIsr v5: answers by topic id.
StopReplica v1: partitions grouped by topic.
StopReplica v3: each partition says whether it is to be deleted.
UpdateMetadata v1: endpoints.
UpdateMetadata v3: the listeners' names.
UpdateMetadata v5: partitions grouped by topic.

Kafka: KafkaApis.handleLeaderAndIsrRequest, handleStopReplicaRequest, handleUpdateMetadataRequest; the layouts:
LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest.normalize.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.api.origins import ControllerOrigin
from barnabas.api.request import Handler, Request
from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.replica.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1
"""The epoch of requests whose version has none, and of senders that do not know it: not checked."""

PLAINTEXT_ID = 0

ControllerRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


class InterBrokerApi:
    """Hands the controller's orders to the replicas.

    broker_epoch: this broker's registration as of now; a request with a smaller one is stale.
    """

    def __init__(self, replicas: ReplicaManager, origin: ControllerOrigin, broker_epoch: Callable[[], int]) -> None:
        self._orders = replicas.orders
        self._origin = origin
        self._broker_epoch = broker_epoch

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.LEADER_AND_ISR, self.leader_and_isr, error_answer=_leader_and_isr_error),
            Handler(ApiKey.STOP_REPLICA, self.stop_replica, error_answer=_stop_replica_error),
            Handler(ApiKey.UPDATE_METADATA, self.update_metadata),
        )

    def leader_and_isr(self, request: Request[LeaderAndIsrRequest]) -> None:
        """Become leader or follower of partitions.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, and INVALID_REQUEST
        or INVALID_TOPIC_EXCEPTION for a partition that cannot exist.
        """
        self._origin.require(request)
        body = request.body
        if self._is_stale(request):
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        # The replicas know one layout, that of the newest version: old controllers exist during a rolling upgrade only.
        body.topic_states = _leader_and_isr_by_topic(body)
        _check_partitions(body.topic_states)
        response = self._orders.apply_leader_and_isr(body)
        # Raised, so that `_leader_and_isr_error` says the error of every partition in the layout of the version.
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code))
        if request.api_version < 5:
            response.partition_errors = [
                LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                    topic_name=topic_state.topic_name,
                    partition_index=partition.partition_index,
                    error_code=partition.error_code,
                )
                for topic_state, topic in zip(body.topic_states, response.topics, strict=True)
                for partition in topic.partition_errors
            ]
            response.topics = []
        request.respond(response)

    def stop_replica(self, request: Request[StopReplicaRequest]) -> None:
        """Stop hosting partitions, and delete those that say so. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED."""
        self._origin.require(request)
        if self._is_stale(request):
            request.respond(StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        request.body.topic_states = _stop_replica_by_topic(request.body)
        request.respond(self._orders.stop_replicas(request.body))

    def update_metadata(self, request: Request[UpdateMetadataRequest]) -> None:
        """Publish the cluster's brokers and partitions to this broker.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION for a name that no topic can have.
        """
        self._origin.require(request)
        if self._is_stale(request):
            request.respond(UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            return
        if request.api_version < 3:
            for broker in request.body.live_brokers:
                _name_listeners(broker, request.api_version)
        for name in {state.topic_name for state in _update_metadata_topics(request.body)}:
            validate_topic_name(name)
        request.respond(self._orders.update_metadata(request.body))

    def _is_stale(self, request: Request[Any]) -> bool:
        """Return whether the request was meant for an earlier registration of this broker.

        A larger epoch than ours is right: the controller may learn of a registration before the broker does.
        """
        body: ControllerRequest = request.body
        ours = self._broker_epoch()
        # KIP-380: after a quick restart, an order from before the restart could stop replicas that were just opened.
        if body.broker_epoch == UNKNOWN_BROKER_EPOCH or body.broker_epoch >= ours:
            return False
        logger.info(
            "Received %s request with broker epoch %d smaller than the current broker epoch %d from controller %d "
            "with epoch %d.",
            request.handler.api_key.name,
            body.broker_epoch,
            ours,
            body.controller_id,
            body.controller_epoch,
        )
        return True


def _leader_and_isr_error(request: Request[LeaderAndIsrRequest], error: ApiError) -> LeaderAndIsrResponse:
    """Say the error of the whole and of every partition, as one list before v5 and by topic id since."""
    response = LeaderAndIsrResponse(error_code=error.code)
    for topic_state in _leader_and_isr_by_topic(request.body):
        errors = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(topic_state.topic_name, state.partition_index, error.code)
            for state in topic_state.partition_states
        ]
        if request.api_version < 5:
            response.partition_errors.extend(errors)
        else:
            response.topics.append(LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_state.topic_id, errors))
    return response


def _stop_replica_error(request: Request[StopReplicaRequest], error: ApiError) -> StopReplicaResponse:
    """Say the error of the whole and of every partition, whichever of three layouts names them."""
    return StopReplicaResponse(
        error_code=error.code,
        partition_errors=[
            StopReplicaResponse.StopReplicaPartitionError(topic_state.topic_name, state.partition_index, error.code)
            for topic_state in _stop_replica_by_topic(request.body)
            for state in topic_state.partition_states
        ],
    )


def _check_partitions(topic_states: Iterable[LeaderAndIsrRequest.LeaderAndIsrTopicState]) -> None:
    """Check that the partitions can exist: name and number become a directory. No controller sends others.

    Raises ApiError: INVALID_TOPIC_EXCEPTION for the name, INVALID_REQUEST for a negative number.
    """
    for topic_state in topic_states:
        validate_topic_name(topic_state.topic_name)
        for state in topic_state.partition_states:
            # -1 and -2 say "no epoch" and "being deleted" in StopReplica: no leader has such an epoch.
            if state.partition_index < 0 or state.leader_epoch < 0:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Partition {topic_state.topic_name}-{state.partition_index} of leader epoch {state.leader_epoch}: "
                    "neither number may be negative",
                )


def _leader_and_isr_by_topic(body: LeaderAndIsrRequest) -> list[LeaderAndIsrRequest.LeaderAndIsrTopicState]:
    # v0 and v1 name the topic beside each partition.
    if not body.ungrouped_partition_states:
        return body.topic_states
    grouped: dict[str, LeaderAndIsrRequest.LeaderAndIsrTopicState] = {}
    for state in body.ungrouped_partition_states:
        if state.topic_name not in grouped:
            grouped[state.topic_name] = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=state.topic_name)
        grouped[state.topic_name].partition_states.append(state)
    return list(grouped.values())


def _update_metadata_topics(
    body: UpdateMetadataRequest,
) -> Sequence[UpdateMetadataRequest.UpdateMetadataTopicState | UpdateMetadataRequest.UpdateMetadataPartitionState]:
    """Return the states that name topics: since v5 the topics' own, before each partition's."""
    return body.topic_states or body.ungrouped_partition_states


def _stop_replica_by_topic(body: StopReplicaRequest) -> list[StopReplicaRequest.StopReplicaTopicState]:
    if body.topic_states:
        return body.topic_states
    grouped: dict[str, list[int]] = {}
    for partition in body.ungrouped_partitions:
        grouped.setdefault(partition.topic_name, []).append(partition.partition_index)
    for topic in body.topics:
        grouped.setdefault(topic.name, []).extend(topic.partition_indexes)
    return [
        StopReplicaRequest.StopReplicaTopicState(name, _stopped(indexes, delete=body.delete_partitions))
        for name, indexes in grouped.items()
    ]


def _stopped(indexes: Iterable[int], *, delete: bool) -> list[StopReplicaRequest.StopReplicaPartitionState]:
    """Return the partitions without a leader epoch (-1), so that none is checked."""
    return [
        StopReplicaRequest.StopReplicaPartitionState(partition_index=index, delete_partition=delete)
        for index in indexes
    ]


def _name_listeners(broker: UpdateMetadataRequest.UpdateMetadataBroker, version: int) -> None:
    """Name listeners that have no name after their security protocol; v0 has one listener, and it is plaintext."""
    if version == 0:
        broker.endpoints = [
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                port=broker.v0_port, host=broker.v0_host, security_protocol=PLAINTEXT_ID
            )
        ]
    for endpoint in broker.endpoints:
        if 0 <= endpoint.security_protocol < len(SECURITY_PROTOCOLS):
            # Kafka's default: a listener without a name has that of its security protocol.
            endpoint.listener = SECURITY_PROTOCOLS[endpoint.security_protocol]
