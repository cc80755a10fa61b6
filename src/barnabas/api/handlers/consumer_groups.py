"""ConsumerGroupHeartbeat: v0-1 (KIP-848). ConsumerGroupDescribe is in `group_admin`.

Brief: most heartbeats only move a deadline. If a large group may have to be assigned again, or the service is not made
yet, a handler thread does it. Needs READ on the group, and DESCRIBE on every topic that is named; topics that a regular
expression matches are left out where that is not allowed.

v1: regular expressions; a member makes its own id.

Kafka: KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from barnabas.api.authorize import Authorizer, is_allowed, permitted
from barnabas.api.brief import BRIEF, hand_over
from barnabas.api.request import Handler, Request
from barnabas.coordinator.group.consumer.consumer_group_member import (
    HeartbeatAnswer,
    HeartbeatTerms,
    PartitionEpochs,
    keeps_all_values,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.runtime.lazy import Lazy
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService

MEMBER_MAKES_ITS_ID_SINCE = 1


class ConsumerGroupsApi:
    """Heartbeats of members of consumer groups.

    groups: their service, made when the first heartbeat comes; None: the broker serves no such groups.
    """

    def __init__(self, groups: Lazy[ConsumerGroupService] | None, authorizer: Authorizer | None) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, self.heartbeat, brief=BRIEF),)

    def heartbeat(self, request: Request[ConsumerGroupHeartbeatRequest]) -> None:
        """Join, stay or leave; answered when the change is stored.

        Raises ApiError: UNSUPPORTED_VERSION without consumer groups, GROUP_AUTHORIZATION_FAILED,
        TOPIC_AUTHORIZATION_FAILED.
        """
        if self._groups is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        body = request.body
        if not is_allowed(self._authorizer, request, AclOperation.READ, ResourceType.GROUP, body.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        service = self._groups.made
        if service is not None and keeps_all_values(body):
            member_id, epoch = body.member_id, body.member_epoch
            client_id, host = request.header.client_id or "", _client_host(request)
            interval_ms = service.quiet_heartbeat(body.group_id, member_id, epoch, body.instance_id, client_id, host)
            if interval_ms is not None:
                request.respond(
                    ConsumerGroupHeartbeatResponse(
                        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
                    )
                )
                return
        self._change_group(request, self._groups)

    def _change_group(
        self, request: Request[ConsumerGroupHeartbeatRequest], groups: Lazy[ConsumerGroupService]
    ) -> None:
        """Answer a heartbeat that may change its group. Raises ApiError: TOPIC_AUTHORIZATION_FAILED."""
        self._check_topics(request)
        terms = self._terms(request)
        # Nothing has been done yet, so the request can be handled from its beginning on the other thread.
        if request.brief and (groups.made is None or groups().may_take_long(terms)):
            hand_over()

        def answer(result: HeartbeatAnswer) -> None:
            request.respond(_response(result))

        groups().heartbeat(terms, request.deferred(answer))

    def _check_topics(self, request: Request[ConsumerGroupHeartbeatRequest]) -> None:
        """Check the topics that are named. Raises ApiError: TOPIC_AUTHORIZATION_FAILED."""
        named = set(request.body.subscribed_topic_names or ())
        # One refused topic refuses the whole heartbeat, as in Kafka: the answer has no error of a single topic.
        if len(permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, named)) < len(named):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _terms(self, request: Request[ConsumerGroupHeartbeatRequest]) -> HeartbeatTerms:
        body = request.body

        def may_describe(names: Collection[str]) -> AbstractSet[str]:
            return permitted(
                self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names, log_if_denied=False
            )

        return HeartbeatTerms(
            group_id=body.group_id,
            member_id=body.member_id,
            member_epoch=body.member_epoch,
            client_id=request.header.client_id or "",
            client_host=_client_host(request),
            instance_id=body.instance_id,
            rack_id=body.rack_id,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            subscribed_topic_names=body.subscribed_topic_names,
            subscribed_topic_regex=body.subscribed_topic_regex,
            server_assignor=body.server_assignor,
            owned=_owned(body),
            needs_member_id=request.api_version >= MEMBER_MAKES_ITS_ID_SINCE,
            may_describe=may_describe,
        )


def _client_host(request: Request[ConsumerGroupHeartbeatRequest]) -> str:
    # Java's InetAddress.toString: tools show the host of a member with a slash before it.
    return f"/{request.connection.client_address}"


def _owned(body: ConsumerGroupHeartbeatRequest) -> dict[bytes, frozenset[int]] | None:
    """Return what the member says it owns, by topic id; entries of a topic that comes several times are joined."""
    # Null says "as before", an empty list that the member owns nothing: the coordinator must tell them apart.
    if body.topic_partitions is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for topic in body.topic_partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def _response(result: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _assignment(partitions: PartitionEpochs) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
        ]
    )
