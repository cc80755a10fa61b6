"""Changes of partitions that the controller makes: more partitions, other leaders, other replicas.

Part of `Admin`. Kafka: NewPartitions, PartitionReassignment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import error_in, raise_error
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from barnabas.protocol.topic_partition import TopicPartition, by_topic


@dataclass(frozen=True)
class NewPartitions:
    """A topic's new number of partitions. `assignments`: the brokers of each new partition, if not the controller's.

    Without assignments, the controller chooses the brokers.
    """

    total_count: int
    assignments: Sequence[Sequence[int]] = ()


class PartitionReassignment(NamedTuple):
    """A reassignment in progress: the present replicas, and which of them are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class AdminPartitions(AdminPart):
    """The methods of `Admin` that change partitions."""

    def create_partitions(self, wanted: Mapping[str, NewPartitions], *, validate_only: bool = False) -> None:
        """Give topics more partitions, and wait until the partitions exist.

        Raises ApiError for the first topic that cannot have more partitions. All other topics get theirs.
        """
        request = CreatePartitionsRequest(
            topics=[
                # Null lets the controller choose brokers. An empty list would be an assignment without the new
                # partitions.
                CreatePartitionsRequest.CreatePartitionsTopic(
                    name,
                    new.total_count,
                    [CreatePartitionsRequest.CreatePartitionsAssignment(list(brokers)) for brokers in new.assignments]
                    or None,
                )
                for name, new in wanted.items()
            ],
            timeout_ms=self._calls.broker_timeout_ms,
            validate_only=validate_only,
        )
        answer = self._calls.ask_controller(
            request, CreatePartitionsResponse, lambda answer: (result.error_code for result in answer.results)
        )
        for result in answer.results:
            raise_error(result.error_code, result.error_message, f"Topic: {result.name}")

    def elect_leaders(
        self, election_type: ElectionType, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Request leader elections for these partitions, or for all.

        Returns the error, or None, of each partition that needed an election. Raises ApiError when no election took
        place at all.
        """
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if partitions is None
            else [
                ElectLeadersRequest.TopicPartitions(topic, indexes) for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms=self._calls.broker_timeout_ms,
        )
        answer = self._calls.ask_controller(request, ElectLeadersResponse, _election_errors)
        raise_error(answer.error_code, None, "No election took place")
        # Brokers leave out partitions that need no election only when they are asked about all partitions.
        return {
            TopicPartition(topic.topic, result.partition_id): error_in(
                result.error_code, result.error_message, f"Partition: {topic.topic}-{result.partition_id}"
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }

    def alter_partition_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a reassignment.

        Returns each partition's error, or None. Raises ApiError when no partition was changed at all.
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._calls.broker_timeout_ms,
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    topic, [_reassignable(index, wanted[TopicPartition(topic, index)]) for index in indexes]
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        answer = self._calls.ask_controller(
            request, AlterPartitionReassignmentsResponse, lambda answer: (answer.error_code,)
        )
        raise_error(answer.error_code, answer.error_message, "Nothing was reassigned")
        return {
            TopicPartition(topic.name, each.partition_index): error_in(
                each.error_code, each.error_message, f"Partition: {topic.name}-{each.partition_index}"
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, of these partitions or of all. Raises ApiError."""
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._calls.broker_timeout_ms,
            topics=None
            if partitions is None
            else [
                ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        answer = self._calls.ask_controller(
            request, ListPartitionReassignmentsResponse, lambda answer: (answer.error_code,)
        )
        raise_error(answer.error_code, answer.error_message, "Reassignments are not known")
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }


def _election_errors(answer: ElectLeadersResponse) -> list[int]:
    results = [result for topic in answer.replica_election_results for result in topic.partition_result]
    return [answer.error_code, *(result.error_code for result in results)]


def _reassignable(
    index: int, replicas: Sequence[int] | None
) -> AlterPartitionReassignmentsRequest.ReassignablePartition:
    # Null cancels the reassignment in progress.
    return AlterPartitionReassignmentsRequest.ReassignablePartition(index, None if replicas is None else list(replicas))
