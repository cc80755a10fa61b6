"""ListGroups: v0-5. DescribeGroups: v0-6. DeleteGroups: v0-2. ConsumerGroupDescribe: v0-1 (KIP-848).

Not brief: there may be many groups, and many members in one. A group that the client may not describe is not listed; a
group that reads a topic which the client may not describe is not described.

ListGroups v4: filter by state (KIP-518).
ListGroups v5: filter by type (KIP-848).
DescribeGroups v3: authorized operations (KIP-430).
DescribeGroups v4: group instance ids.
DescribeGroups v6: a group that does not exist is an error (KIP-1043); before, it is Dead.
ConsumerGroupDescribe v1: which protocol a member speaks (KIP-1099).

Kafka: KafkaApis.handleListGroupsRequest, handleDescribeGroupsRequest, handleDeleteGroupsRequest,
handleConsumerGroupDescribe (4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, authorized_operations, is_allowed, permitted
from barnabas.api.brief import each_once
from barnabas.api.request import Handler, Request
from barnabas.coordinator.group.group_admin_service import GroupAdminService
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

MISSING_IS_AN_ERROR_SINCE: Final = 6
"""DescribeGroups v6."""

Described = DescribeGroupsResponse.DescribedGroup
DescribedConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup
Deleted = DeleteGroupsResponse.DeletableGroupResult


class GroupAdminApi:
    """Lists, describes and deletes groups, of both protocols."""

    def __init__(self, groups: GroupAdminService, authorizer: Authorizer | None) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.LIST_GROUPS, self.list_groups),
            Handler(ApiKey.DESCRIBE_GROUPS, self.describe_groups),
            Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, self.consumer_group_describe),
            Handler(ApiKey.DELETE_GROUPS, self.delete_groups, error_answer=_deletion_error),
        )

    # -- ListGroups

    def list_groups(self, request: Request[ListGroupsRequest]) -> None:
        """List the groups that the client may describe; all, if it may describe the cluster."""
        sees_all = is_allowed(
            self._authorizer,
            request,
            AclOperation.DESCRIBE,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            log_if_denied=False,
        )
        error, groups = self._groups.list_groups(request.body.states_filter, request.body.types_filter)
        if not sees_all:
            visible = self._permitted(
                request, AclOperation.DESCRIBE, (group.group_id for group in groups), log_if_denied=False
            )
            groups = [group for group in groups if group.group_id in visible]
        request.respond(ListGroupsResponse(error_code=error, groups=groups))

    # -- DescribeGroups

    def describe_groups(self, request: Request[DescribeGroupsRequest]) -> None:
        """Describe classic groups; those that the client may not describe come first, as in Kafka's answers.

        A group named twice is described once: a few bytes could ask for a thousand members, again and again.
        """
        body = request.body
        names = each_once(body.groups)
        allowed = self._permitted(request, AclOperation.DESCRIBE, names)
        refused = [
            Described(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group_id in names
            if group_id not in allowed
        ]
        described = self._groups.describe_groups(
            [group_id for group_id in names if group_id in allowed],
            tells_missing=request.api_version >= MISSING_IS_AN_ERROR_SINCE,
        )
        if body.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = self._operations(request, group.group_id)
        request.respond(DescribeGroupsResponse(groups=[*refused, *described]))

    # -- ConsumerGroupDescribe

    def consumer_group_describe(self, request: Request[ConsumerGroupDescribeRequest]) -> None:
        """Describe groups of KIP-848, one named twice once.

        Raises ApiError UNSUPPORTED_VERSION when `group.coordinator.rebalance.protocols` leaves them out.
        """
        if not self._groups.serves_consumer_groups:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        body = request.body
        names = each_once(body.group_ids)
        allowed = self._permitted(request, AclOperation.DESCRIBE, names)
        refused = [
            DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group_id in names
            if group_id not in allowed
        ]
        described = self._groups.describe_consumer_groups([group_id for group_id in names if group_id in allowed])
        if body.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = self._operations(request, group.group_id)
        request.respond(ConsumerGroupDescribeResponse(groups=self._without_hidden_topics(request, refused + described)))

    def _without_hidden_topics(
        self, request: Request[Any], groups: list[DescribedConsumerGroup]
    ) -> list[DescribedConsumerGroup]:
        """Replace the description of a group that reads a topic which the client may not describe by an error."""
        if self._authorizer is None:
            return groups
        topics = [set(_topics_of(group)) for group in groups]
        # One question about all topics: groups that read the same topics are common.
        names = set().union(*topics)
        visible = permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        return [
            group
            if read <= visible
            else DescribedConsumerGroup(
                group_id=group.group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The group has described topic(s) that the client is not authorized to describe.",
            )
            for group, read in zip(groups, topics, strict=True)
        ]

    # -- DeleteGroups

    def delete_groups(self, request: Request[DeleteGroupsRequest]) -> None:
        """Delete the groups that the client may delete; a group named twice is answered once."""
        names = list(each_once(request.body.groups_names))  # each group once, as in Kafka
        allowed = self._permitted(request, AclOperation.DELETE, names)

        def answer(errors: Mapping[str, ErrorCode]) -> None:
            deleted = [Deleted(group_id=group_id, error_code=error) for group_id, error in errors.items()]
            refused = [
                Deleted(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for group_id in names
                if group_id not in allowed
            ]
            request.respond(DeleteGroupsResponse(results=deleted + refused))

        self._groups.delete_groups([name for name in names if name in allowed], request.deferred(answer))

    # -- all

    def _permitted(
        self, request: Request[Any], operation: AclOperation, names: Iterable[str], *, log_if_denied: bool = True
    ) -> AbstractSet[str]:
        return permitted(self._authorizer, request, operation, ResourceType.GROUP, names, log_if_denied=log_if_denied)

    def _operations(self, request: Request[Any], group_id: str) -> int:
        return authorized_operations(self._authorizer, request, ResourceType.GROUP, group_id)


def _deletion_error(request: Request[DeleteGroupsRequest], error: ApiError) -> DeleteGroupsResponse:
    """Say the error of every group, once."""
    names = each_once(request.body.groups_names)
    return DeleteGroupsResponse(results=[Deleted(group_id=group_id, error_code=error.code) for group_id in names])


def _topics_of(group: DescribedConsumerGroup) -> Iterable[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name
