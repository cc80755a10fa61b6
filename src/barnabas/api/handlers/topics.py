"""CreateTopics: v0-7. DeleteTopics: v0-6. CreatePartitions: v0-3 (KIP-195).

Not brief: all three write to the store, then wait in the topic purgatory until the controller has done the rest and the
change shows in this broker's metadata, or until the request's timeout.

CreateTopics v1: validate only.
CreateTopics v4: default partitions and replication (-1, KIP-464).
CreateTopics v5: flexible; configs in the answer (KIP-525).
CreateTopics v7: topic ids.
DeleteTopics v4: flexible.
DeleteTopics v5: error message.
DeleteTopics v6: topics by id.
CreatePartitions v2: flexible.
CreatePartitions v3: a strict quota of controller mutations (KIP-599).

Kafka: KafkaApis.handleCreateTopicsRequest, handleDeleteTopicsRequest and handleCreatePartitionsRequest, ZkAdminManager,
DelayedCreatePartitions, DelayedDeleteTopics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, permitted
from barnabas.api.config_entries import topic_entries
from barnabas.api.request import Handler, Request
from barnabas.api.throttle import mutation_quota, respond_with_quota
from barnabas.api.topic_changes import TopicChanges
from barnabas.config.dynamic_settings import BrokerSettings
from barnabas.controller.controller import Controller
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_admin import CreateTopicResult, TopicAdmin, TopicToCreate, TopicToGrow
from barnabas.metadata.topic_name import CLUSTER_METADATA_TOPIC
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

CreatedAnswer = CreateTopicsResponse.CreatableTopicResult
DeletedAnswer = DeleteTopicsResponse.DeletableTopicResult
GrowthResults = dict[str, ApiError | None]

UNKNOWN = -1
DELETION_DISABLED_SINCE = 3
"""The version from which on a client knows TOPIC_DELETION_DISABLED."""
CREATION_REFUSED_SINCE, DELETION_REFUSED_SINCE, GROWTH_REFUSED_SINCE = 6, 5, 3
"""Versions from which on a client knows THROTTLING_QUOTA_EXCEEDED; older ones only wait (KIP-599)."""


class TopicsApi:
    """Creates and deletes topics.

    broker_settings: as in force now, for the settings a new topic inherits. is_controller: asked for each request: only
    the controller creates and deletes. deletion_enabled: `delete.topic.enable`.
    """

    def __init__(
        self,
        topic_admin: TopicAdmin,
        metadata: MetadataCache,
        changes: TopicChanges,
        broker_settings: Callable[[], BrokerSettings],
        authorizer: Authorizer | None,
        *,
        is_controller: Callable[[], bool],
        deletion_enabled: bool,
    ) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._changes = changes
        self._broker_settings = broker_settings
        self._authorizer = authorizer
        self._is_controller = is_controller
        self._deletion_enabled = deletion_enabled

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.CREATE_TOPICS, self.create_topics),
            Handler(ApiKey.DELETE_TOPICS, self.delete_topics),
        )

    def create_topics(self, request: Request[CreateTopicsRequest]) -> None:
        """Create the topics that can be created; answer when all their partitions have leaders, else with
        REQUEST_TIMED_OUT."""
        body = request.body
        if not self._is_controller():
            request.respond(_created_elsewhere(body))
            return
        times_named = Counter(topic.name for topic in body.topics)
        refused = self._creation_refused(request, times_named)
        with_configs = permitted(
            self._authorizer,
            request,
            AclOperation.DESCRIBE_CONFIGS,
            ResourceType.TOPIC,
            _unreserved(times_named),
            log_if_denied=False,
        )
        # A topic named twice is refused both times: neither of two definitions is the right one.
        wanted = [_new_topic(topic) for topic in body.topics if topic.name not in refused]
        quota = mutation_quota(request, CREATION_REFUSED_SINCE)
        made = self._topic_admin.create_topics(wanted, validate_only=body.validate_only, quota=quota)
        results = {result.name: result for result in made} | refused
        created = {result.name for result in results.values() if result.error is None}

        def answer(unfinished: frozenset[str]) -> None:
            # One for each entry: a topic that is named twice is answered twice, as by Kafka.
            answers = [
                self._created_answer(results[topic.name], timed_out=topic.name in unfinished) for topic in body.topics
            ]
            for shown in answers:
                # Partitions and settings of the new topic are for clients with DESCRIBE_CONFIGS (KIP-525).
                if shown.name not in with_configs:
                    tells_why = shown.error_code == ErrorCode.NONE or shown.name in refused
                    _hide_settings(shown, tells_why=tells_why and shown.name != CLUSTER_METADATA_TOPIC)
            respond_with_quota(request, quota, CreateTopicsResponse(topics=answers))

        if body.validate_only or not created:
            answer(frozenset())
        else:
            # The partitions asked for, not those that the metadata shows: one without a live broker never gets there.
            counts = {name: results[name].num_partitions for name in created}
            self._changes.when_partitions_added(counts, body.timeout_ms, request.deferred(answer))

    def delete_topics(self, request: Request[DeleteTopicsRequest]) -> None:
        """Delete the topics that exist; answer when the metadata no longer shows them.

        Raises ApiError INVALID_REQUEST for the whole request if a topic is given by its name and by an id.
        """
        if not self._is_controller():
            wanted = _topics_to_delete(request)
            elsewhere = [DeletedAnswer(each.name, each.topic_id, ErrorCode.NOT_CONTROLLER) for each in wanted]
            request.respond(DeleteTopicsResponse(responses=elsewhere))
            return
        answers = self._resolved(request)
        names = [answer.name for answer in answers if answer.error_code == ErrorCode.NONE and answer.name is not None]
        quota = mutation_quota(request, DELETION_REFUSED_SINCE)
        errors = {} if not names else self._topic_admin.delete_topics(names, quota)
        for result in answers:
            error = errors.get(result.name or "")
            if result.error_code == ErrorCode.NONE and error is not None:
                result.error_code, result.error_message = error.code, error.message

        def answer(unfinished: frozenset[str]) -> None:
            for result in answers:
                if result.name in unfinished:
                    result.error_code = ErrorCode.REQUEST_TIMED_OUT
                    result.error_message = ErrorCode.REQUEST_TIMED_OUT.message
            respond_with_quota(request, quota, DeleteTopicsResponse(responses=answers))

        deleting = frozenset(result.name for result in answers if result.error_code == ErrorCode.NONE and result.name)
        # By name, as in Kafka: a topic of the same name that is created at once keeps this request waiting.
        if deleting:
            self._changes.when_deleted(deleting, request.body.timeout_ms, request.deferred(answer))
        else:
            answer(frozenset())

    def _creation_refused(
        self, request: Request[CreateTopicsRequest], times_named: Mapping[str, int]
    ) -> dict[str, CreateTopicResult]:
        """Return the topics that must not be created: reserved, named twice, or not permitted."""
        create = AclOperation.CREATE
        cluster = (create, ResourceType.CLUSTER, CLUSTER_NAME)
        allowed: Iterable[str] = times_named
        if not is_allowed(self._authorizer, request, *cluster, log_if_denied=False):
            allowed = permitted(self._authorizer, request, create, ResourceType.TOPIC, _unreserved(times_named))
        refused = {}
        for name, times in times_named.items():
            if name == CLUSTER_METADATA_TOPIC:
                error = ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
            elif times > 1:
                error = ApiError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
            elif name not in allowed:
                error = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            else:
                continue
            refused[name] = CreateTopicResult(name, error)
        return refused

    def _created_answer(self, result: CreateTopicResult, *, timed_out: bool) -> CreatedAnswer:
        if result.error is not None:
            return CreatedAnswer(
                name=result.name,
                error_code=result.error.code,
                error_message=result.error.message,
                num_partitions=UNKNOWN,
                replication_factor=UNKNOWN,
            )
        if timed_out:  # nothing more, and no text, as in Kafka
            return CreatedAnswer(
                name=result.name,
                topic_id=result.topic_id,
                error_code=ErrorCode.REQUEST_TIMED_OUT,
                error_message=None,
                num_partitions=UNKNOWN,
                replication_factor=UNKNOWN,
            )
        return CreatedAnswer(
            name=result.name,
            topic_id=result.topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=result.num_partitions,
            replication_factor=result.replication_factor,
            configs=[
                CreateTopicsResponse.CreatableTopicConfigs(
                    name=entry.key.name,
                    value=entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.key.is_sensitive,
                )
                for entry in topic_entries(self._broker_settings(), result.configs)
            ],
        )

    def _resolved(self, request: Request[DeleteTopicsRequest]) -> list[DeletedAnswer]:
        """Return the names and ids of the topics to delete, or the errors that say why they cannot be.

        Raises ApiError INVALID_REQUEST for the whole request if a topic is given by its name and by an id.
        """
        image = self._metadata.image
        wanted = _topics_to_delete(request)
        # Before the names are looked up: the answer must not tell which topics exist.
        if not self._deletion_enabled:
            known_since = request.api_version >= DELETION_DISABLED_SINCE
            code = ErrorCode.TOPIC_DELETION_DISABLED if known_since else ErrorCode.INVALID_REQUEST
            return [_not_deleted(topic.name, topic.topic_id, code) for topic in wanted]
        if any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in wanted):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        names = [image.topic_names.get(topic.topic_id) if topic.name is None else topic.name for topic in wanted]
        known = [name for name in names if name is not None]
        described = permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, known)
        deletable = permitted(self._authorizer, request, AclOperation.DELETE, ResourceType.TOPIC, known)
        answers = []
        for topic, name in zip(wanted, names, strict=True):
            topic_id = topic.topic_id
            if name is None:
                answer = _not_deleted(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
            elif topic.name is None and name not in described:  # an id is no secret, its name is
                answer = _not_deleted(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif name not in deletable:
                answer = _not_deleted(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif name not in image.topics:
                answer = _not_deleted(name, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                answer = DeletedAnswer(name=name, topic_id=image.topics[name].topic_id, error_code=ErrorCode.NONE)
            answers.append(answer)
        return answers


def _unreserved(names: Iterable[str]) -> list[str]:
    """Return the names whose permissions count: that of KRaft's log is refused to every client."""
    return [name for name in names if name != CLUSTER_METADATA_TOPIC]


def _created_elsewhere(body: CreateTopicsRequest) -> CreateTopicsResponse:
    """Return the answer of a broker that is not the controller: the code for each name, without a text, as Kafka's."""
    return CreateTopicsResponse(
        topics=[
            CreatedAnswer(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
            for topic in body.topics
        ]
    )


def _hide_settings(answer: CreatedAnswer, *, tells_why: bool) -> None:
    """Leave out everything but the outcome: the rest needs DESCRIBE_CONFIGS."""
    answer.topic_id = ZERO_UUID
    answer.num_partitions = answer.replication_factor = UNKNOWN
    answer.configs = []
    if tells_why:
        answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _not_deleted(name: str | None, topic_id: bytes, code: ErrorCode) -> DeletedAnswer:
    return DeletedAnswer(name=name, topic_id=topic_id, error_code=code, error_message=code.message)


def _topics_to_delete(request: Request[DeleteTopicsRequest]) -> Sequence[DeleteTopicsRequest.DeleteTopicState]:
    """Return the topics as v6 and later name them."""
    if request.api_version >= 6:
        return request.body.topics
    return [DeleteTopicsRequest.DeleteTopicState(name, ZERO_UUID) for name in request.body.topic_names]


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> TopicToCreate:
    return TopicToCreate(
        topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={assigned.partition_index: list(assigned.broker_ids) for assigned in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
    )


class PartitionsApi:
    """Adds partitions to topics. controller: only the broker that is the controller does so."""

    def __init__(
        self, topic_admin: TopicAdmin, changes: TopicChanges, controller: Controller, authorizer: Authorizer | None
    ) -> None:
        self._topic_admin = topic_admin
        self._changes = changes
        self._controller = controller
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.CREATE_PARTITIONS, self.create_partitions, error_answer=_growth_error_answer),)

    def create_partitions(self, request: Request[CreatePartitionsRequest]) -> None:
        """Add the partitions that can be added; answer when they have leaders, else with REQUEST_TIMED_OUT."""
        body = request.body
        if not self._controller.is_active:
            request.respond(
                _growth_response(dict.fromkeys((t.name for t in body.topics), ApiError(ErrorCode.NOT_CONTROLLER)))
            )
            return
        refused = self._refused(request)
        wanted = [_new_partitions(topic) for topic in body.topics if topic.name not in refused]
        quota = mutation_quota(request, GROWTH_REFUSED_SINCE)
        results = self._topic_admin.create_partitions(wanted, validate_only=body.validate_only, quota=quota)
        counts = {new.name: new.count for new in wanted if results[new.name] is None}

        def answer(unfinished: frozenset[str]) -> None:
            late = dict.fromkeys(unfinished, ApiError(ErrorCode.REQUEST_TIMED_OUT))
            respond_with_quota(request, quota, _growth_response(results | late | refused))

        if body.validate_only or not counts:
            answer(frozenset())
        # As in Kafka: the partitions are being made, but a client that does not wait gets REQUEST_TIMED_OUT.
        elif body.timeout_ms <= 0:
            answer(frozenset(counts))
        else:
            self._changes.when_partitions_added(counts, body.timeout_ms, request.deferred(answer))

    def _refused(self, request: Request[CreatePartitionsRequest]) -> GrowthResults:
        times_named = Counter(topic.name for topic in request.body.topics)
        # A topic named twice is refused before its permission is looked at.
        once = [name for name, times in times_named.items() if times == 1]
        allowed = permitted(self._authorizer, request, AclOperation.ALTER, ResourceType.TOPIC, once)
        refused: GrowthResults = {}
        for name, times in times_named.items():
            if times > 1:
                refused[name] = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            elif name not in allowed:
                refused[name] = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
        return refused


def _growth_error_answer(request: Request[CreatePartitionsRequest], error: ApiError) -> CreatePartitionsResponse:
    """Say the error of every topic, once; some errors come without a text."""
    return _growth_response({topic.name: error for topic in request.body.topics})


def _new_partitions(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> TopicToGrow:
    given = topic.assignments
    return TopicToGrow(topic.name, topic.count, None if given is None else [list(each.broker_ids) for each in given])


def _growth_response(results: Mapping[str, ApiError | None]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_growth_result(name, error) for name, error in results.items()])


def _growth_result(name: str, error: ApiError | None) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    """Return the answer for one topic. Kafka gives no text to errors that concern every topic alike."""
    if error is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name, ErrorCode.NONE)
    # The controller's check and the timeout come without a text in Kafka, too.
    is_bare = error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(name, error.code, None if is_bare else error.message)
