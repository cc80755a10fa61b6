"""Access control lists as an administrator sees them (KIP-140): creates, describes and deletes entries.

Part of `Admin`. Kafka: KafkaAdminClient.createAcls and its kin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import raise_error
from barnabas.protocol.errors import ApiError, error_of
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType


class DeletedAcls(NamedTuple):
    """The result of one filter. acls: what it deleted. failures: what it selected and could not delete.

    error: why the filter selected nothing at all; None otherwise.
    """

    error: ApiError | None
    acls: tuple[AclBinding, ...]
    failures: dict[AclBinding, ApiError]


class AdminAcls(AdminPart):
    """The methods of `Admin` about access control lists."""

    def create_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, ApiError | None]:
        """Create entries of access control lists.

        Returns each entry's error, or None. An entry that exists already is no error.
        """
        wanted = list(dict.fromkeys(bindings))
        request = CreateAclsRequest([_creation(*pattern, entry) for pattern, entry in wanted])
        answer = self._calls.ask(request, CreateAclsResponse)
        return {
            binding: _error(result.error_code, result.error_message)
            for binding, result in zip(wanted, answer.results, strict=True)
        }

    def describe_acls(self, selection: AclBindingFilter) -> list[AclBinding]:
        """Return the entries that a filter selects, sorted; `AclBindingFilter()` selects all. Raises ApiError."""
        pattern, entry = selection
        request = DescribeAclsRequest(
            pattern.resource_type,
            pattern.name,
            pattern.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission_type,
        )
        answer = self._calls.ask(request, DescribeAclsResponse)
        raise_error(answer.error_code, answer.error_message, "Access control lists are not known")
        found = (
            _binding(
                (resource.resource_type, resource.resource_name, resource.pattern_type),
                (each.principal, each.host, each.operation, each.permission_type),
            )
            for resource in answer.resources
            for each in resource.acls
        )
        return sorted(found)

    def delete_acls(self, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, DeletedAcls]:
        """Delete the entries that filters select. Returns what each filter deleted; an entry belongs to one filter."""
        wanted = list(dict.fromkeys(filters))
        request = DeleteAclsRequest([_filter(*pattern, entry) for pattern, entry in wanted])
        answer = self._calls.ask(request, DeleteAclsResponse)
        return {each: _deleted(result) for each, result in zip(wanted, answer.filter_results, strict=True)}


def _creation(
    resource_type: ResourceType, name: str, pattern_type: PatternType, entry: AccessControlEntry
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type, name, pattern_type, entry.principal, entry.host, entry.operation, entry.permission_type
    )


def _filter(
    resource_type: ResourceType, name: str | None, pattern_type: PatternType, entry: AccessControlEntryFilter
) -> DeleteAclsRequest.DeleteAclsFilter:
    return DeleteAclsRequest.DeleteAclsFilter(
        resource_type, name, pattern_type, entry.principal, entry.host, entry.operation, entry.permission_type
    )


def _deleted(result: DeleteAclsResponse.DeleteAclsFilterResult) -> DeletedAcls:
    acls: list[AclBinding] = []
    failures: dict[AclBinding, ApiError] = {}
    for each in result.matching_acls:
        binding = _binding(
            (each.resource_type, each.resource_name, each.pattern_type),
            (each.principal, each.host, each.operation, each.permission_type),
        )
        error = _error(each.error_code, each.error_message)
        if error is None:
            acls.append(binding)
        else:
            failures[binding] = error
    return DeletedAcls(_error(result.error_code, result.error_message), tuple(sorted(acls)), failures)


def _binding(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> AclBinding:
    """Return the binding of these codes; those of a later version of Kafka become UNKNOWN."""
    resource_type, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return AclBinding(
        ResourcePattern(ResourceType.of_code(resource_type), name, PatternType.of_code(pattern_type)),
        AccessControlEntry(principal, host, AclOperation.of_code(operation), AclPermissionType.of_code(permission)),
    )


def _error(code: int, message: str | None) -> ApiError | None:
    if not code:
        return None
    error = error_of(code)
    return ApiError(error, message or error.message)
