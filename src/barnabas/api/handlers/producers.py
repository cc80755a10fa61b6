"""DescribeProducers: v0 (KIP-664): the idempotent and transactional producers that a partition knows.

Not brief: a partition may know very many. Any replica answers, not only the leader.

Kafka: KafkaApis.handleDescribeProducersRequest, Partition.activeProducerState.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.api.authorize import Authorizer, is_allowed
from barnabas.api.brief import each_once
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import validate_topic_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeProducersResponse
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

PartitionResponse = DescribeProducersResponse.PartitionResponse


class ProducersApi:
    """Shows the producer state of partitions."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._hosted = replicas.hosted
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_PRODUCERS, self.describe_producers),)

    def describe_producers(self, request: Request[DescribeProducersRequest]) -> None:
        """Answer every partition on its own, one named twice once."""
        response = DescribeProducersResponse()
        # Each partition once: four bytes could ask for all of its producers, again and again.
        asked: dict[str, dict[int, None]] = {}
        for topic in request.body.topics:
            asked.setdefault(topic.name, {}).update(each_once(topic.partition_indexes))
        for name, indexes in asked.items():
            answer = DescribeProducersResponse.TopicResponse(name)
            response.topics.append(answer)
            try:
                self._check_topic(request, name)
            except ApiError as error:
                answer.partitions = [_failed(index, error) for index in indexes]
            else:
                answer.partitions = [self._partition(name, index) for index in indexes]
        request.respond(response)

    def _check_topic(self, request: Request[DescribeProducersRequest], name: str) -> None:
        """Check name, permission and existence. Raises ApiError with the first that fails."""
        # In Kafka's order: the name, the permission, and only then whether the topic exists.
        validate_topic_name(name)
        if not is_allowed(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not self._metadata.contains(name):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _partition(self, topic: str, index: int) -> PartitionResponse:
        try:
            partition = self._hosted.partition_or_error(topic, index)
        except ApiError as error:
            return PartitionResponse(index, error.code)
        return PartitionResponse(
            index,
            ErrorCode.NONE,
            active_producers=[
                DescribeProducersResponse.ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.current_transaction_start_offset,
                )
                for producer in partition.log.active_producers()
            ],
        )


def _failed(index: int, error: ApiError) -> PartitionResponse:
    return PartitionResponse(index, error.code, error.message)
