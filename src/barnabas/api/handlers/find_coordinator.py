"""FindCoordinator: v0-6.

Brief: it reads the metadata image. The topic whose leaders coordinate groups, or transactions, is created, on a handler
thread, by the first request; that request is answered when the topic has leaders, or after a second with the error to
retry. (Kafka answers that error at once; librdkafka retries once a second, so the first consumer of a new broker would
lose one.)

Share groups are not supported yet: FindCoordinator answers COORDINATOR_NOT_AVAILABLE, which clients retry.

v1: key type (KIP-98).
v3: flexible.
v4: several keys (KIP-699).
v6: share groups (KIP-932).

Kafka: KafkaApis.handleFindCoordinatorRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed
from barnabas.api.brief import BRIEF, COORDINATOR_KEY_US, check_cost, each_once
from barnabas.api.request import Handler, Request
from barnabas.api.throttle import mutation_quota
from barnabas.api.topic_changes import TopicChanges
from barnabas.metadata.auto_topic_creation import AutoTopicCreation
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

NO_NODE: Final = -1
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Types of keys (Kafka: CoordinatorType)."""
SHARE_SINCE: Final = 6
SUCCESS: Final = "NONE"
"""The error message of a coordinator that was found, in v1 to v3: Kafka writes the name of no error
(Errors.NONE.message()). From v4 on the message is empty."""
CREATION_TIMEOUT_MS: Final = 1000
NEVER_REFUSED: Final = 1 << 15
"""No version has the creation of the topic refused for a quota: it is only counted."""


class _CoordinatorOrError(NamedTuple):
    """A coordinator, or the error. message: a text that says more than the error's own."""

    error: ErrorCode
    node_id: int = NO_NODE
    host: str = ""
    port: int = NO_NODE
    message: str | None = None


_NOT_AVAILABLE: Final = _CoordinatorOrError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_TOPICS: Final = {GROUP: GROUP_METADATA_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}
"""The topic whose partitions' leaders are the coordinators, by type of key."""


class FindCoordinatorApi:
    """Finds the broker that coordinates a group or a transactional id.

    group_partition_for, transaction_partition_for: the partition of the coordinators' topic in which an id is kept.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        group_partition_for: Callable[[str], int],
        transaction_partition_for: Callable[[str], int],
        creation: AutoTopicCreation,
        topic_changes: TopicChanges,
        authorizer: Authorizer | None,
    ) -> None:
        self._metadata = metadata
        self._group_partition_for = group_partition_for
        self._transaction_partition_for = transaction_partition_for
        self._creation = creation
        self._topic_changes = topic_changes
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.FIND_COORDINATOR, self.find_coordinator, brief=BRIEF),)

    def find_coordinator(self, request: Request[FindCoordinatorRequest]) -> None:
        """Answer from the image; create the topic first if it does not exist."""
        body = request.body
        keys = [body.key] if request.api_version < 4 else body.coordinator_keys
        if request.brief:
            check_cost(len(keys) * COORDINATOR_KEY_US)
        found = self._find_all(request, keys)
        topic = _TOPICS.get(body.key_type)
        # Unless the client may describe none of its groups or ids, which then must not create the topic.
        if topic is not None and topic not in self._metadata.image.topics and _NOT_AVAILABLE in found:
            # Creating a topic writes to the store and may block: never on the processor's thread.
            request.channel.resume(request.deferred(lambda: self._create_and_answer(request, topic, keys, found)))
            return
        request.respond(_answer(request, keys, found))

    def _create_and_answer(
        self, request: Request[FindCoordinatorRequest], topic: str, keys: list[str], found: list[_CoordinatorOrError]
    ) -> None:
        # Two first requests may both come here: the second one finds that the topic exists, and waits like the first.
        errors = self._creation.create([topic], mutation_quota(request, NEVER_REFUSED))
        if errors[topic] not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            why = _NOT_AVAILABLE._replace(message=self._creation.obstacle(topic))
            request.respond(_answer(request, keys, [why if each == _NOT_AVAILABLE else each for each in found]))
            return

        def answer(_without_leader: frozenset[str]) -> None:
            request.respond(_answer(request, keys, self._find_all(request, keys)))

        self._topic_changes.when_leaders_elected(frozenset([topic]), CREATION_TIMEOUT_MS, request.deferred(answer))

    def _find_all(self, request: Request[FindCoordinatorRequest], keys: list[str]) -> list[_CoordinatorOrError]:
        if len(keys) == 1:
            return [self._find(request, keys[0])]
        found = {key: self._find(request, key) for key in each_once(keys)}
        return [found[key] for key in keys]

    def _find(self, request: Request[FindCoordinatorRequest], key: str) -> _CoordinatorOrError:
        kind = request.body.key_type
        describe = AclOperation.DESCRIBE
        # The permission comes first: a client without it must not learn which broker coordinates the group.
        if kind == GROUP:
            if not is_allowed(self._authorizer, request, describe, ResourceType.GROUP, key):
                return _CoordinatorOrError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return self._leader_of(request, GROUP_METADATA_TOPIC, self._group_partition_for(key))
        if kind == TRANSACTION:
            if not is_allowed(self._authorizer, request, describe, ResourceType.TRANSACTIONAL_ID, key):
                return _CoordinatorOrError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return self._leader_of(request, TRANSACTION_STATE_TOPIC, self._transaction_partition_for(key))
        if kind == SHARE and request.api_version >= SHARE_SINCE:
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            if not is_allowed(self._authorizer, request, *cluster):
                return _CoordinatorOrError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return _NOT_AVAILABLE
        return _CoordinatorOrError(ErrorCode.INVALID_REQUEST)

    def _leader_of(self, request: Request[FindCoordinatorRequest], topic: str, partition: int) -> _CoordinatorOrError:
        image = self._metadata.image
        known = image.topics.get(topic)
        leader = None if known is None else known.partition(partition)
        if leader is None:
            return _NOT_AVAILABLE
        # A leader that is down, or lacks the client's listener, cannot coordinate for this client: it retries.
        listener_name = request.connection.listener_name
        endpoint = image.endpoint(leader.leader, listener_name)
        if endpoint is not None:
            return _CoordinatorOrError(ErrorCode.NONE, leader.leader, *endpoint)
        if leader.leader >= 0 and leader.leader in image.brokers:
            why = f"is led by broker {leader.leader}, which has no listener {listener_name}"
        else:
            why = f"has no leader: none of its in-sync replicas ({', '.join(map(str, leader.isr))}) is alive"
        return _NOT_AVAILABLE._replace(message=f"Partition {partition} of {topic} {why}")


def _answer(
    request: Request[FindCoordinatorRequest], keys: list[str], found: list[_CoordinatorOrError]
) -> FindCoordinatorResponse:
    if request.api_version < 4:
        one = found[0]
        # v1 to v3 carry a text in every answer, as in Kafka; see SUCCESS.
        message = SUCCESS if one.error is ErrorCode.NONE else one.message or one.error.message
        return FindCoordinatorResponse(
            error_code=one.error, error_message=message, node_id=one.node_id, host=one.host, port=one.port
        )
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=one.error,
                error_message=one.message or one.error.message,
            )
            for key, one in zip(keys, found, strict=True)
        ]
    )
