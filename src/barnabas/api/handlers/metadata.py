"""Metadata: v0-13.

Brief: it reads one immutable image. Topics that must be created first are created on a handler thread; a request about
many partitions is handed over to one. The answer about all topics is encoded once for each image.

v1: controller, internal topics; null means all topics (v0: an empty list does).
v2: cluster id.
v4: auto-creation may be declined.
v5: offline replicas.
v7: leader epochs.
v8: authorized operations.
v9: flexible.
v10: topic ids.
v12: topics by id.
v13: top-level error.

Kafka: KafkaApis.handleTopicMetadataRequest, ZkMetadataCache.getTopicMetadata, DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.api.authorize import (
    CLUSTER_NAME,
    NOT_REQUESTED,
    Authorizer,
    authorized_cluster_operations,
    authorized_operations,
    is_allowed,
    permitted,
)
from barnabas.api.brief import AUTHORIZED_NAME_US, BRIEF, METADATA_PARTITION_US, check_cost, check_costs, each_once
from barnabas.api.encoded_answers import EncodedAnswers
from barnabas.api.request import Handler, Request
from barnabas.api.throttle import mutation_quota
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage, PartitionMetadata, TopicMetadata
from barnabas.metadata.topic_name import invalid_reason, is_internal
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.metadata.auto_topic_creation import AutoTopicCreation

TopicAnswer = MetadataResponse.MetadataResponseTopic
PartitionAnswer = MetadataResponse.MetadataResponsePartition

NO_LEADER = -1
NEVER_REFUSED = 1 << 15
"""No version has the topics that it would create refused for a quota: they are only counted."""

THROTTLE_TIME_SINCE = 3
BY_ID_SINCE = 12

CREATED_SOON = {
    ErrorCode.NONE: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.TOPIC_ALREADY_EXISTS: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.LEADER_NOT_AVAILABLE,
}
"""The error for an auto-created topic: the client retries, since the topic has no leader yet."""


class MetadataApi:
    """Describes topics, partitions and brokers.

    creation: returns what creates topics, which is made for the first one. auto_create: whether
    `auto.create.topics.enable` is on now.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        creation: Callable[[], AutoTopicCreation],
        auto_create: Callable[[], bool],
        authorizer: Authorizer | None,
    ) -> None:
        self._metadata = metadata
        self._creation = creation
        self._auto_create = auto_create
        self._authorizer = authorizer
        self._all_topics = EncodedAnswers()

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.METADATA, self.metadata, error_answer=_error_answer, brief=BRIEF),)

    def metadata(self, request: Request[MetadataRequest]) -> None:
        """Answer from the image; unknown topics are created first where the request and the settings allow it.

        Raises ApiError INVALID_REQUEST when a topic is asked for by id before v12.
        """
        if request.api_version < BY_ID_SINCE:
            self._check_names_and_ids(request)
        image = self._metadata.image
        if _asks_for_all(request):
            self._answer_for_all_topics(request, image)
            return
        # One image for the whole answer: the cache may have a newer one a moment later, with other leaders.
        names = _names_asked_for(request, image)
        if request.brief:
            check_costs(map(_cost_us, map(image.topics.get, names)))
        else:
            # Each topic once, as in Kafka: two bytes could ask for a thousand partitions, again and again.
            names = list(each_once(names))
            once = {(topic.topic_id, topic.name): topic for topic in request.body.topics or ()}
            request.body.topics = list(once.values())
        errors = self._not_to_be_described(request, names, log_if_denied=True)
        missing = [name for name in self._missing_topics(request, image) if name not in errors]
        if missing and self._may_create(request):
            errors |= self._not_to_be_created(request, missing)
            new = [name for name in missing if name not in errors]
            if new:
                # Creating a topic writes to the store and may block: never on the processor's thread.
                request.channel.resume(request.deferred(lambda: self._create_and_answer(request, new, errors)))
                return
        errors = {name: _error_of_missing(name) for name in missing} | errors
        request.respond(self._response(request, image, errors))

    def _answer_for_all_topics(self, request: Request[MetadataRequest], image: MetadataImage) -> None:
        """Answer for all topics: one answer for all clients of the listener that may see every topic, else what this
        one may see."""
        body, version = request.body, request.api_version
        if self._authorizer is not None:
            if request.brief:
                check_cost(len(image.topics) * AUTHORIZED_NAME_US)
            hidden = self._not_to_be_described(request, image.topics, log_if_denied=False)
            # The kept answer is for clients that see every topic: what depends on the client is made for it.
            if hidden or body.include_topic_authorized_operations or body.include_cluster_authorized_operations:
                request.respond(self._response(request, image, hidden))
                return
        # All that the answer depends on besides the image.
        key = (
            version,
            request.connection.listener_name,
            body.include_topic_authorized_operations,
            body.include_cluster_authorized_operations,
        )
        encoded = self._all_topics.find(image, key)
        if encoded is None:
            if request.brief:
                check_costs(map(_cost_us, image.topics.values()))
            answer = self._response(request, image, {})
            has_throttle_time = version >= THROTTLE_TIME_SINCE
            encoded = self._all_topics.keep(image, key, answer, version, has_throttle_time=has_throttle_time)
        request.respond(MetadataResponse(), encoded)

    @staticmethod
    def _check_names_and_ids(request: Request[MetadataRequest]) -> None:
        """Check how topics are named: v10 and v11 have the field for ids, but only v12 may ask by id.

        Raises ApiError: INVALID_REQUEST for a topic without a name, or by id, before v12.
        """
        for topic in request.body.topics or ():
            if topic.name is None:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Topic name can not be null for version < 12")
            if topic.topic_id != ZERO_UUID:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Topic IDs are not supported for version < 12")

    @staticmethod
    def _missing_topics(request: Request[MetadataRequest], image: MetadataImage) -> list[str]:
        return [
            topic.name
            for topic in request.body.topics or ()
            if topic.name is not None and topic.topic_id == ZERO_UUID and topic.name not in image.topics
        ]

    def _may_create(self, request: Request[MetadataRequest]) -> bool:
        # Before v4 the field does not exist, and every request may create.
        declined = request.api_version >= 4 and not request.body.allow_auto_topic_creation
        return not declined and self._auto_create()

    def _not_to_be_described(
        self, request: Request[MetadataRequest], names: Iterable[str], *, log_if_denied: bool
    ) -> dict[str, ErrorCode]:
        """Return the error of the topics whose existence the client must not learn."""
        if self._authorizer is None:
            return {}
        # Read twice below; the caller may have passed the keys of the image.
        names = list(names)
        seen = permitted(
            self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names, log_if_denied=log_if_denied
        )
        return {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for name in names if name not in seen}

    def _not_to_be_created(self, request: Request[MetadataRequest], names: list[str]) -> dict[str, ErrorCode]:
        """Return the error of the topics that the client may create neither in the cluster nor by name."""
        authorizer, create = self._authorizer, AclOperation.CREATE
        if is_allowed(authorizer, request, create, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=False):
            return {}
        allowed = permitted(authorizer, request, create, ResourceType.TOPIC, names)
        return {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for name in names if name not in allowed}

    def _create_and_answer(
        self, request: Request[MetadataRequest], names: list[str], refused: dict[str, ErrorCode]
    ) -> None:
        quota = mutation_quota(request, NEVER_REFUSED)
        created = self._creation().create(names, quota)
        errors = refused | {name: CREATED_SOON.get(code, code) for name, code in created.items()}
        request.respond(self._response(request, self._metadata.image, errors))

    def _response(
        self, request: Request[MetadataRequest], image: MetadataImage, errors: dict[str, ErrorCode]
    ) -> MetadataResponse:
        body = request.body
        version = request.api_version
        with_operations = version >= 8 and body.include_topic_authorized_operations
        wants_cluster_operations = 8 <= version <= 10 and body.include_cluster_authorized_operations
        topics = [
            self._topic_answer(topic, image, request.connection.listener_name, version)
            if isinstance(topic, TopicMetadata)
            else topic
            for topic in self._topics_asked_for(request, image, errors)
        ]
        if with_operations:
            for answer in topics:
                if answer.error_code == ErrorCode.NONE:
                    answer.topic_authorized_operations = authorized_operations(
                        self._authorizer, request, ResourceType.TOPIC, answer.name or ""
                    )
        return MetadataResponse(
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
                for broker, host, port in image.reachable_brokers(request.connection.listener_name)
            ],
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            topics=topics,
            cluster_authorized_operations=authorized_cluster_operations(self._authorizer, request)
            if wants_cluster_operations
            else NOT_REQUESTED,
            error_code=ErrorCode.NONE,
        )

    @staticmethod
    def _topics_asked_for(
        request: Request[MetadataRequest], image: MetadataImage, errors: dict[str, ErrorCode]
    ) -> Iterable[TopicMetadata | TopicAnswer]:
        if _asks_for_all(request):
            yield from (topic for topic in image.topics.values() if topic.name not in errors)
            return
        for topic in request.body.topics or ():
            if topic.topic_id != ZERO_UUID:
                name = image.topic_names.get(topic.topic_id)
                if name is None:
                    yield TopicAnswer(
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic.topic_id, partitions=[]
                    )
                    continue
            elif topic.name is None:
                yield TopicAnswer(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name="", partitions=[])
                continue
            else:
                name = topic.name
            if errors.get(name) is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # Ids are no secret. A client that asks by id must not learn the name, nor by name the id.
                by_id = topic.topic_id != ZERO_UUID
                yield TopicAnswer(
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    name=None if by_id else name,
                    topic_id=topic.topic_id,
                    partitions=[],
                )
                continue
            known = image.topics.get(name)
            if known is not None and name not in errors:
                yield known
            else:
                yield TopicAnswer(
                    error_code=errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    name=name,
                    is_internal=is_internal(name),
                    partitions=[],
                )

    @classmethod
    def _topic_answer(cls, topic: TopicMetadata, image: MetadataImage, listener: str, version: int) -> TopicAnswer:
        return TopicAnswer(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[cls._partition_answer(partition, image, listener, version) for partition in topic.partitions],
            topic_authorized_operations=NOT_REQUESTED,
        )

    @staticmethod
    def _partition_answer(
        partition: PartitionMetadata, image: MetadataImage, listener: str, version: int
    ) -> PartitionAnswer:
        leader = image.brokers.get(partition.leader)
        if leader is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        elif listener not in leader.endpoints:
            # From v6 on the client learns that the leader lacks its listener: a mistake of configuration.
            error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        else:
            error = ErrorCode.NONE
        return PartitionAnswer(
            error_code=error,
            partition_index=partition.partition,
            # The list of brokers has only those that the client can reach: another leader would have no address.
            leader_id=partition.leader if error is ErrorCode.NONE else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=list(partition.offline_replicas),
        )


def _error_of_missing(name: str) -> ErrorCode:
    """Return the error of a topic that does not exist and is not created."""
    if invalid_reason(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def _asks_for_all(request: Request[MetadataRequest]) -> bool:
    topics = request.body.topics
    return topics is None or (request.api_version == 0 and not topics)


def _names_asked_for(request: Request[MetadataRequest], image: MetadataImage) -> list[str]:
    """Return the names of the topics asked for; ids of no topic are left out."""
    names = []
    for topic in request.body.topics or ():
        name = topic.name if topic.topic_id == ZERO_UUID else image.topic_names.get(topic.topic_id)
        if name is not None:
            names.append(name)
    return names


def _cost_us(topic: TopicMetadata | None) -> int:
    """Return what it costs to describe a topic, or to say that there is none, in microseconds."""
    return METADATA_PARTITION_US if topic is None else len(topic.partitions) * METADATA_PARTITION_US


def _error_answer(request: Request[MetadataRequest], error: ApiError) -> MetadataResponse:
    """Say the error of every topic named and, from v13 on, of the whole. A topic asked for by id has no name."""
    return MetadataResponse(
        error_code=error.code,
        topics=[
            TopicAnswer(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.body.topics or ()
        ],
    )
