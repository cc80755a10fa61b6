"""Requests of brokers to the controller. ControlledShutdown: v0-3. AlterPartition: v0-3. AllocateProducerIds: v0.

Not brief, though they only ask the controller, which answers on its own thread. `api.origins` says where they may
come from. A broker that is not the controller answers NOT_CONTROLLER.

ControlledShutdown v0: another request header, without a client id.
ControlledShutdown v2: the broker's epoch.
ControlledShutdown v3: flexible.
AlterPartition v2: topics by id.
AlterPartition v3: the epochs of the replicas.

Kafka: KafkaApis.handleControlledShutdownRequest, handleAlterPartitionRequest, handleAllocateProducerIdsRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.api.origins import BrokerOrigin
from barnabas.api.request import Handler, Request
from barnabas.controller.controller import Controller
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.broker_zk_data import ProducerIdsBlock

RemainingPartition = ControlledShutdownResponse.RemainingPartition


class ControllerRequestsApi:
    """Hands brokers' requests to the controller in this process."""

    def __init__(self, controller: Controller, origin: BrokerOrigin) -> None:
        self._controller = controller
        self._origin = origin

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.CONTROLLED_SHUTDOWN, self.controlled_shutdown),
            Handler(ApiKey.ALTER_PARTITION, self.alter_partition),
            Handler(ApiKey.ALLOCATE_PRODUCER_IDS, self.allocate_producer_ids),
        )

    def controlled_shutdown(self, request: Request[ControlledShutdownRequest]) -> None:
        """Lead a broker's partitions elsewhere; answer with those that it still leads.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        self._origin.require_to_controller(request)

        def answer(result: set[TopicPartition] | ApiError) -> None:
            if isinstance(result, ApiError):
                request.fail(result)
            else:
                # Sorted: a set has no order, and equal results should give equal answers.
                remaining = [RemainingPartition(left.topic, left.partition) for left in sorted(result)]
                request.respond(ControlledShutdownResponse(remaining_partitions=remaining))

        self._controller.controlled_shutdown(
            request.body.broker_id, request.body.broker_epoch, request.deferred(answer)
        )

    def alter_partition(self, request: Request[AlterPartitionRequest]) -> None:
        """Change the in-sync replicas of partitions that the sender leads.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        self._origin.require_to_controller(request)
        self._controller.alter_partitions(request.body, request.api_version, request.deferred(request.respond))

    def allocate_producer_ids(self, request: Request[AllocateProducerIdsRequest]) -> None:
        """Give a broker a block of producer ids.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        self._origin.require_to_controller(request)

        def answer(result: ProducerIdsBlock | ApiError) -> None:
            if isinstance(result, ApiError):
                request.fail(result)
            else:
                block = AllocateProducerIdsResponse(
                    producer_id_start=result.first_producer_id, producer_id_len=result.size
                )
                request.respond(block)

        self._controller.allocate_producer_ids(
            request.body.broker_id, request.body.broker_epoch, request.deferred(answer)
        )
