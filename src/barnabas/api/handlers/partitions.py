"""CreatePartitions: v0-3 (KIP-195).

Not brief: it writes to the store, then waits in the topic purgatory until all of a topic's partitions have leaders, or
for the request's timeout.

v2: flexible.
v3: a strict quota of controller mutations (KIP-599).

Kafka: KafkaApis.handleCreatePartitionsRequest, ZkAdminManager.createPartitions, DelayedCreatePartitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from barnabas.api.authorize import Authorizer, permitted
from barnabas.api.request import Handler, Request
from barnabas.api.throttle import mutation_quota, respond_with_quota
from barnabas.api.topic_changes import TopicChanges
from barnabas.controller.controller import Controller
from barnabas.metadata.topic_admin import TopicAdmin, TopicToGrow
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

Results = dict[str, ApiError | None]

REFUSED_SINCE = 3
"""The version from which on a client knows THROTTLING_QUOTA_EXCEEDED; older ones are only delayed (KIP-599)."""


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
        return (Handler(ApiKey.CREATE_PARTITIONS, self.create_partitions, error_answer=_error_answer),)

    def create_partitions(self, request: Request[CreatePartitionsRequest]) -> None:
        """Add the partitions that can be added; answer when they have leaders, else with REQUEST_TIMED_OUT."""
        body = request.body
        if not self._controller.is_active:
            request.respond(_response(dict.fromkeys((t.name for t in body.topics), ApiError(ErrorCode.NOT_CONTROLLER))))
            return
        refused = self._refused(request)
        wanted = [_new_partitions(topic) for topic in body.topics if topic.name not in refused]
        quota = mutation_quota(request, REFUSED_SINCE)
        results = self._topic_admin.create_partitions(wanted, validate_only=body.validate_only, quota=quota)
        counts = {new.name: new.count for new in wanted if results[new.name] is None}

        def answer(unfinished: frozenset[str]) -> None:
            late = dict.fromkeys(unfinished, ApiError(ErrorCode.REQUEST_TIMED_OUT))
            respond_with_quota(request, quota, _response(results | late | refused))

        if body.validate_only or not counts:
            answer(frozenset())
        # As in Kafka: the partitions are being made, but a client that does not wait is told REQUEST_TIMED_OUT.
        elif body.timeout_ms <= 0:
            answer(frozenset(counts))
        else:
            self._changes.when_partitions_added(counts, body.timeout_ms, request.deferred(answer))

    def _refused(self, request: Request[CreatePartitionsRequest]) -> Results:
        times_named = Counter(topic.name for topic in request.body.topics)
        # A topic named twice is refused before its permission is looked at.
        once = [name for name, times in times_named.items() if times == 1]
        allowed = permitted(self._authorizer, request, AclOperation.ALTER, ResourceType.TOPIC, once)
        refused: Results = {}
        for name, times in times_named.items():
            if times > 1:
                refused[name] = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            elif name not in allowed:
                refused[name] = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
        return refused


def _error_answer(request: Request[CreatePartitionsRequest], error: ApiError) -> CreatePartitionsResponse:
    """Say the error of every topic, once; some errors come without a text."""
    return _response({topic.name: error for topic in request.body.topics})


def _new_partitions(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> TopicToGrow:
    given = topic.assignments
    return TopicToGrow(topic.name, topic.count, None if given is None else [list(each.broker_ids) for each in given])


def _response(results: Mapping[str, ApiError | None]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(name, error) for name, error in results.items()])


def _result(name: str, error: ApiError | None) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    """Return the answer for one topic. Kafka gives no text to errors that concern every topic alike."""
    if error is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name, ErrorCode.NONE)
    # The controller's check and the timeout come without a text in Kafka, too.
    is_bare = error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(name, error.code, None if is_bare else error.message)
