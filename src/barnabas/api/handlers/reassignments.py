"""AlterPartitionReassignments: v0-1. ListPartitionReassignments: v0 (KIP-455).

Not brief, though they only ask the controller, which answers on its own thread: an alteration when the reassignment has
begun and is stored, not when it is over. No replicas (null) cancel a reassignment. Both fail as a whole on a broker
that is not the controller.

AlterPartitionReassignments v1: the client may forbid another replication factor (KIP-860).

Kafka: KafkaApis.handleAlterPartitionReassignmentsRequest, handleListPartitionReassignmentsRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.controller.controller import Controller
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.security.acl.acl_codes import AclOperation
from barnabas.zk.znodes.topic_zk_data import ReplicaAssignment

AlteredTopic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
AlteredPartition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
OngoingTopic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
OngoingPartition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


class ReassignmentsApi:
    """Moves partitions between brokers, and lists the moves under way."""

    def __init__(self, controller: Controller, authorizer: Authorizer | None) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, self.alter_partition_reassignments),
            Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, self.list_partition_reassignments),
        )

    def alter_partition_reassignments(self, request: Request[AlterPartitionReassignmentsRequest]) -> None:
        """Begin or cancel reassignments; answer for each partition.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        # A partition that is named twice is altered once, to the replicas named last.
        wanted: dict[TopicPartition, Sequence[int] | None] = {
            TopicPartition(topic.name, partition.partition_index): partition.replicas
            for topic in request.body.topics
            for partition in topic.partitions
        }

        def answer(result: Mapping[TopicPartition, ApiError | None] | ApiError) -> None:
            if isinstance(result, ApiError):
                # Without the partitions: only what fails before the controller is asked names them, in Kafka too.
                request.respond(
                    AlterPartitionReassignmentsResponse(error_code=result.code, error_message=result.message)
                )
            else:
                # In the order of the request, not in that of the controller's answer.
                request.respond(_altered(request.body, {partition: result[partition] for partition in wanted}))

        self._controller.alter_partition_reassignments(
            wanted,
            request.deferred(answer),
            allow_replication_factor_change=request.body.allow_replication_factor_change,
        )

    def list_partition_reassignments(self, request: Request[ListPartitionReassignmentsRequest]) -> None:
        """List how the partitions named, or all, are being moved.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE)
        topics = request.body.topics
        named = (
            None
            if topics is None
            else [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
        )

        def answer(result: Mapping[TopicPartition, ReplicaAssignment] | ApiError) -> None:
            if isinstance(result, ApiError):
                request.fail(result)
            else:
                request.respond(_listed(result))

        self._controller.list_partition_reassignments(named, request.deferred(answer))


def _altered(
    body: AlterPartitionReassignmentsRequest, results: Mapping[TopicPartition, ApiError | None]
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, AlteredTopic] = {}
    for partition, error in results.items():
        topic = topics.setdefault(partition.topic, AlteredTopic(name=partition.topic))
        altered = AlteredPartition(partition_index=partition.partition, error_message=None)
        if error is not None:
            altered.error_code, altered.error_message = error.code, error.message
        topic.partitions.append(altered)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change, responses=list(topics.values())
    )


def _listed(assignments: Mapping[TopicPartition, ReplicaAssignment]) -> ListPartitionReassignmentsResponse:
    topics: dict[str, OngoingTopic] = {}
    for partition, assignment in assignments.items():
        topic = topics.setdefault(partition.topic, OngoingTopic(name=partition.topic))
        topic.partitions.append(
            OngoingPartition(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))
