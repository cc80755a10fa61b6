"""DeleteRecords: v0-2 (KIP-107).

Not brief: a partition may have segments to drop. Answered when every live replica has raised its log start offset, or
after the timeout. Without DELETE a topic is TOPIC_AUTHORIZATION_FAILED, whether it exists or not.

v2: flexible.

Kafka: KafkaApis.handleDeleteRecordsRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.api.authorize import Authorizer, permitted
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.requests.delete_records import INVALID_LOW_WATERMARK, DeleteRecordsResult, ReplicaRecordDeleter
from barnabas.security.acl.acl_codes import AclOperation, ResourceType


class DeleteRecordsApi:
    """Moves the log start offsets of partitions led here, and waits for their replicas."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._deleter = ReplicaRecordDeleter(replicas.hosted.partition_or_error, replicas.waiting)
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DELETE_RECORDS, self.delete_records),)

    def delete_records(self, request: Request[DeleteRecordsRequest]) -> None:
        """Delete the records below an offset, in the partitions that the client may delete from."""
        body = request.body
        names = [topic.name for topic in body.topics]
        allowed = permitted(self._authorizer, request, AclOperation.DELETE, ResourceType.TOPIC, names)
        image = self._metadata.image
        offsets: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, DeleteRecordsResult] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                if topic.name not in allowed:
                    refused[key] = _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                # After the permission: a client without it must not learn which topics exist.
                elif image.partition(key) is None:
                    refused[key] = _failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    offsets[key] = partition.offset
        if not offsets:
            request.respond(_response(body, refused))
            return
        self._deleter.delete_records(
            offsets,
            timeout_ms=body.timeout_ms,
            on_complete=request.deferred(lambda results: request.respond(_response(body, {**results, **refused}))),
        )


def _response(
    body: DeleteRecordsRequest, results: Mapping[TopicPartition, DeleteRecordsResult]
) -> DeleteRecordsResponse:
    """Answer in the order of the request; a partition that was named twice is answered once, and so is a topic."""
    asked: dict[str, dict[int, None]] = {}
    for topic in body.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(each.partition_index for each in topic.partitions))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name, [_result(index, results[TopicPartition(name, index)]) for index in indexes]
            )
            for name, indexes in asked.items()
        ]
    )


def _result(index: int, result: DeleteRecordsResult) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    return DeleteRecordsResponse.DeleteRecordsPartitionResult(index, result.low_watermark, result.error)


def _failed(code: ErrorCode) -> DeleteRecordsResult:
    return DeleteRecordsResult(INVALID_LOW_WATERMARK, code)
