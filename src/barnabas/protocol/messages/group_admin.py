"""Groups as administrators see them: list, describe, delete (KIP-222, KIP-518, KIP-848).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: DescribeGroupsRequest, ListGroupsRequest, DeleteGroupsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, field


# v1: throttle time; v3: authorized operations (KIP-430); v4: group instance ids (KIP-345); v5: flexible.
# v6: an unknown group is GROUP_ID_NOT_FOUND with a message, and no longer a group in state Dead (KIP-1043).
class DescribeGroupsRequest(MessageSpec, api=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    groups: list[str] = field("0+")
    include_authorized_operations: bool = field("3+")


class DescribeGroupsResponse(MessageSpec, api=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = field("0+").repeats("groups")

    class DescribedGroup(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("6+", nullable="6+", default=None).on_error(None)
        group_id: str = field("0+").repeats("groups")
        group_state: str = field("0+")
        protocol_type: str = field("0+")
        protocol_data: str = field("0+")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = field("0+")
        authorized_operations: Int32 = field("3+", default=-2147483648)

    class DescribedGroupMember(StructSpec):
        member_id: str = field("0+")
        group_instance_id: str | None = field("4+", nullable="4+", ignorable=True, default=None)
        client_id: str = field("0+")
        client_host: str = field("0+")
        member_metadata: bytes = field("0+")
        member_assignment: bytes = field("0+")


# v1: throttle time; v3: flexible; v4: filter by state (KIP-518); v5: filter by type, classic or consumer (KIP-848).
class ListGroupsRequest(MessageSpec, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListGroupsResponse(MessageSpec, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
    groups: list[ListGroupsResponse.ListedGroup] = field("0+")

    class ListedGroup(StructSpec):
        group_id: str = field("0+")
        protocol_type: str = field("0+")
        group_state: str = field("4+", ignorable=True)
        group_type: str = field("5+", ignorable=True)


# v0: KIP-229; v2: flexible. Only a group without members can be deleted: others are answered NON_EMPTY_GROUP.
class DeleteGroupsRequest(MessageSpec, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    groups_names: list[str] = field("0+")


class DeleteGroupsResponse(MessageSpec, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[DeleteGroupsResponse.DeletableGroupResult] = field("0+")

    class DeletableGroupResult(StructSpec):
        group_id: str = field("0+")
        error_code: Int16 = field("0+")
