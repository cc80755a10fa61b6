"""DescribeAcls: v0-3 (KIP-140). CreateAcls: v0-3. DeleteAcls: v0-3.

Not brief: they read many lists, or write the store. Another thread writes it, and the request waits in a purgatory. A
broker without an authorizer refuses them. Each creation and each filter is answered on its own; a request that cannot
be a Kafka client's (an unknown code) loses its connection, as there. v1: pattern types (KIP-290). v2: flexible. v3:
user resources (KIP-373).

Kafka: AclApis; the texts are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NoReturn

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.acl_admin import AclAdmin, DeletedAcl
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.purgatory.purgatory import DelayedFuturePurgatory
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

Creation = CreateAclsRequest.AclCreation
CreationResult = CreateAclsResponse.AclCreationResult
FilterResult = DeleteAclsResponse.DeleteAclsFilterResult


class AclsApi:
    """Describes and changes access control lists. admin: None when the broker has no lists.

    changes: where requests wait until another thread has written their changes (Kafka: the purgatory "AlterAcls").
    timeout_ms: how long; Kafka takes connections.max.idle.ms.
    """

    def __init__(
        self,
        admin: AclAdmin | None,
        authorizer: Authorizer | None,
        changes: DelayedFuturePurgatory,
        timeout_ms: int,
    ) -> None:
        self._admin = admin
        self._authorizer = authorizer
        self._changes = changes
        self._timeout_ms = timeout_ms

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_ACLS, self.describe_acls),
            Handler(ApiKey.CREATE_ACLS, self.create_acls),
            Handler(ApiKey.DELETE_ACLS, self.delete_acls),
        )

    def describe_acls(self, request: Request[DescribeAclsRequest]) -> None:
        """Describe the lists that a filter selects.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED without an authorizer.
        """
        selection = _filter_of(request.body)
        if selection.is_unknown:
            request.close_connection()
            return
        require_cluster_permission(self._authorizer, request, AclOperation.DESCRIBE)
        if self._admin is None:
            raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        found = self._admin.describe(selection)
        resources = [
            DescribeAclsResponse.DescribeAclsResource(
                pattern.resource_type,
                pattern.name,
                pattern.pattern_type,
                [_description(each.entry) for each in bindings],
            )
            for pattern, bindings in groupby(found, lambda binding: binding.pattern)
        ]
        request.respond(DescribeAclsResponse(error_code=ErrorCode.NONE, error_message=None, resources=resources))

    def create_acls(self, request: Request[CreateAclsRequest]) -> None:
        """Add entries, each of which is answered.

        A code that is for filters only fails all of them. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED,
        SECURITY_DISABLED without an authorizer.
        """
        bindings = [_binding_of(each) for each in request.body.creations]
        if any(binding.is_unknown for binding in bindings):
            request.close_connection()
            return
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        if self._admin is None:
            _refuse_without_authorizer()
        if any(_is_for_filters_only(binding) for binding in bindings):
            # Kafka fails to read the request, after it has asked for the permission.
            failed = [CreationResult(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * len(bindings)
            request.respond(CreateAclsResponse(results=failed))
            return
        refused = {index: error for index, each in enumerate(bindings) if (error := _error_of_name(each.pattern))}
        valid = [binding for index, binding in enumerate(bindings) if index not in refused]
        creating = self._admin.create_soon(valid)

        def answer() -> None:
            created = iter(creating.result() if creating.done() else [self._too_late()] * len(valid))
            errors = [refused[index] if index in refused else next(created) for index in range(len(bindings))]
            request.respond(CreateAclsResponse(results=[_creation_result(error) for error in errors]))

        self._changes.when_done(self._timeout_ms, [creating], request.deferred(answer))

    def delete_acls(self, request: Request[DeleteAclsRequest]) -> None:
        """Remove the entries that filters select; each filter is answered with its entries.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED without an authorizer.
        """
        filters = [_filter_of(each) for each in request.body.filters]
        if any(each.is_unknown for each in filters):
            request.close_connection()
            return
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        if self._admin is None:
            _refuse_without_authorizer()
        deleting = self._admin.delete_soon(filters)

        def answer() -> None:
            if deleting.done():
                results = [
                    FilterResult(ErrorCode.NONE, None, [_matching_acl(each) for each in deleted])
                    for deleted in deleting.result()
                ]
            else:
                late = self._too_late()
                results = [FilterResult(late.code, late.message)] * len(filters)
            request.respond(DeleteAclsResponse(filter_results=results))

        self._changes.when_done(self._timeout_ms, [deleting], request.deferred(answer))

    def _too_late(self) -> ApiError:
        """Return the error of a change that is not written when the time is up; it may be written yet."""
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"Request has been timed out after {self._timeout_ms} ms")


def _refuse_without_authorizer() -> NoReturn:
    """Raises ApiError: SECURITY_DISABLED, always."""
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def _filter_of(asked: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclBindingFilter:
    return AclBindingFilter(
        ResourcePatternFilter(
            ResourceType.of_code(asked.resource_type_filter),
            asked.resource_name_filter,
            PatternType.of_code(asked.pattern_type_filter),
        ),
        AccessControlEntryFilter(
            asked.principal_filter,
            asked.host_filter,
            AclOperation.of_code(asked.operation),
            AclPermissionType.of_code(asked.permission_type),
        ),
    )


def _binding_of(asked: Creation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType.of_code(asked.resource_type),
            asked.resource_name,
            PatternType.of_code(asked.resource_pattern_type),
        ),
        AccessControlEntry(
            asked.principal,
            asked.host,
            AclOperation.of_code(asked.operation),
            AclPermissionType.of_code(asked.permission_type),
        ),
    )


def _is_for_filters_only(binding: AclBinding) -> bool:
    pattern, entry = binding
    return (
        pattern.resource_type is ResourceType.ANY
        or pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or entry.operation is AclOperation.ANY
        or entry.permission_type is AclPermissionType.ANY
    )


def _error_of_name(pattern: ResourcePattern) -> ApiError | None:
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return ApiError(ErrorCode.INVALID_REQUEST, message)
    if not pattern.name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None


def _description(entry: AccessControlEntry) -> DescribeAclsResponse.AclDescription:
    return DescribeAclsResponse.AclDescription(entry.principal, entry.host, entry.operation, entry.permission_type)


def _creation_result(error: ApiError | None) -> CreationResult:
    if error is None:
        return CreationResult(ErrorCode.NONE, None)
    return CreationResult(error.code, _message_of(error))


def _matching_acl(deleted: DeletedAcl) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    (pattern, entry), error = deleted
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        ErrorCode.NONE if error is None else error.code,
        None if error is None else _message_of(error),
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _message_of(error: ApiError) -> str | None:
    # Kafka tells no client the text of a defect.
    return None if error.code == ErrorCode.UNKNOWN_SERVER_ERROR else error.message
