"""Access control lists: describe, create, delete (KIP-140, KIP-290).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, field


# v1: pattern types (KIP-290), 3 (literal) where an older client says none; v2: flexible.
# v3: USER as a resource type, for tokens made in the name of others (KIP-373). The same holds for the APIs below.
class DescribeAclsRequest(MessageSpec, api=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    resource_type_filter: Int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: Int8 = field("0+")
    permission_type: Int8 = field("0+")


class DescribeAclsResponse(MessageSpec, api=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resources: list[DescribeAclsResponse.DescribeAclsResource] = field("0+")

    class DescribeAclsResource(StructSpec):
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        pattern_type: Int8 = field("1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = field("0+")

    class AclDescription(StructSpec):
        principal: str = field("0+")
        host: str = field("0+")
        operation: Int8 = field("0+")
        permission_type: Int8 = field("0+")


class CreateAclsRequest(MessageSpec, api=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    creations: list[CreateAclsRequest.AclCreation] = field("0+")

    class AclCreation(StructSpec):
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        resource_pattern_type: Int8 = field("1+", default=3)
        principal: str = field("0+")
        host: str = field("0+")
        operation: Int8 = field("0+")
        permission_type: Int8 = field("0+")


class CreateAclsResponse(MessageSpec, api=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[CreateAclsResponse.AclCreationResult] = field("0+").repeats("creations")

    class AclCreationResult(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")


class DeleteAclsRequest(MessageSpec, api=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsRequest.DeleteAclsFilter] = field("0+")

    class DeleteAclsFilter(StructSpec):
        resource_type_filter: Int8 = field("0+")
        resource_name_filter: str | None = field("0+", nullable="0+")
        pattern_type_filter: Int8 = field("1+", default=3)
        principal_filter: str | None = field("0+", nullable="0+")
        host_filter: str | None = field("0+", nullable="0+")
        operation: Int8 = field("0+")
        permission_type: Int8 = field("0+")


class DeleteAclsResponse(MessageSpec, api=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = field("0+").repeats("filters")

    class DeleteAclsFilterResult(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = field("0+")

    class DeleteAclsMatchingAcl(StructSpec):
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: Int8 = field("0+")
        resource_name: str = field("0+")
        pattern_type: Int8 = field("1+", default=3)
        principal: str = field("0+")
        host: str = field("0+")
        operation: Int8 = field("0+")
        permission_type: Int8 = field("0+")
