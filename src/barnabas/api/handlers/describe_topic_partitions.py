"""DescribeTopicPartitions: v0 (KIP-966): topics in order of their names, in pages of partitions.

Not brief: all topics may be sorted. There are no eligible leader replicas, which only KRaft controllers keep; their
lists are empty rather than null, because Java clients of 4 cannot read null there.

Kafka: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.getTopicMetadataForDescribeTopicResponse.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.api.authorize import NOT_REQUESTED, Authorizer, authorized_operations, permitted
from barnabas.api.brief import each_once
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage, PartitionMetadata, TopicMetadata
from barnabas.metadata.topic_name import invalid_reason, is_internal
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

NO_LEADER: Final = -1
_SORTED_AT_ONCE: Final = 20_000

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


class DescribeTopicPartitionsApi:
    """Describes topics in pages. max_partitions: of one answer, `max.request.partition.size.limit`."""

    def __init__(self, metadata: MetadataCache, authorizer: Authorizer | None, max_partitions: int) -> None:
        self._metadata = metadata
        self._authorizer = authorizer
        self._max_partitions = max_partitions

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, self.describe_topic_partitions, error_answer=_error_answer),)

    def describe_topic_partitions(self, request: Request[DescribeTopicPartitionsRequest]) -> None:
        """Describe partitions from the cursor on, up to the limit, and return a cursor to go on from.

        No topics asked for means all. Raises ApiError INVALID_REQUEST for a cursor that fits no topic.
        """
        body = request.body
        image = self._metadata.image
        wanted = _names_from_cursor(body, [topic.name for topic in body.topics] or image.topics)
        allowed = permitted(
            self._authorizer,
            request,
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            wanted,
            log_if_denied=bool(body.topics),
        )
        # At least one: with a limit of 0 a client would ask for the same page for ever.
        limit = max(min(self._max_partitions, body.response_partition_limit), 1)
        answer = _page(
            image,
            request.connection.listener_name,
            (name for name in wanted if name in allowed),
            0 if body.cursor is None else body.cursor.partition_index,
            "" if body.cursor is None else body.cursor.topic_name,
            limit,
        )
        for topic in answer.topics:
            topic.topic_authorized_operations = authorized_operations(
                self._authorizer, request, ResourceType.TOPIC, topic.name or ""
            )
        # A client that asks for all topics named none: those that it may not describe are left out.
        if body.topics:
            refused = (name for name in wanted if name not in allowed)
            answer.topics += [_error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in refused]
        request.respond(answer)


def _names_from_cursor(body: DescribeTopicPartitionsRequest, names: Iterable[str]) -> list[str]:
    """Return the names from the cursor on, sorted, each once.

    Raises ApiError INVALID_REQUEST for a cursor that fits no topic.
    """
    cursor = body.cursor
    if cursor is None:
        return _sorted(each_once(names))
    wanted = _sorted({name for name in names if name >= cursor.topic_name})
    if body.topics and cursor.topic_name not in wanted:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"Cursor(topicName='{cursor.topic_name}', partitionIndex={cursor.partition_index})",
        )
    return wanted


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort names in slices: one call would keep the GIL for 0.3 s if there were a million."""
    names = list(names)
    if len(names) <= _SORTED_AT_ONCE:
        return sorted(names)
    slices = [sorted(names[first : first + _SORTED_AT_ONCE]) for first in range(0, len(names), _SORTED_AT_ONCE)]
    return list(heapq.merge(*slices))


def _page(
    image: MetadataImage, listener: str, names: Iterable[str], first_index: int, first_topic: str, limit: int
) -> DescribeTopicPartitionsResponse:
    answer = DescribeTopicPartitionsResponse(topics=[])
    left = limit
    for name in names:
        if left == 0:
            answer.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            answer.topics.append(
                _error(
                    name,
                    ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_reason(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            )
            continue
        # The cursor's topic may be gone since the page before: the next topic then begins with its first partition.
        start = first_index if name == first_topic else 0
        shown = topic.partitions[start : start + left]
        answer.topics.append(_described(topic, shown, image, listener))
        left -= len(shown)
        if start + len(shown) < len(topic.partitions):
            answer.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=start + len(shown)
            )
            break
    return answer


def _described(
    topic: TopicMetadata, partitions: Iterable[PartitionMetadata], image: MetadataImage, listener: str
) -> _Topic:
    return _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _Partition(
                error_code=ErrorCode.NONE,
                partition_index=partition.partition,
                leader_id=NO_LEADER if image.endpoint(partition.leader, listener) is None else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(partition.offline_replicas),
            )
            for partition in partitions
        ],
        topic_authorized_operations=NOT_REQUESTED,
    )


def _error_answer(request: Request[DescribeTopicPartitionsRequest], error: ApiError) -> DescribeTopicPartitionsResponse:
    """Say the error of every topic, and which of them are internal."""
    return DescribeTopicPartitionsResponse(topics=[_error(topic.name, error.code) for topic in request.body.topics])


def _error(name: str, code: ErrorCode) -> _Topic:
    return _Topic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED and is_internal(name),
        partitions=[],
        topic_authorized_operations=NOT_REQUESTED,
    )
