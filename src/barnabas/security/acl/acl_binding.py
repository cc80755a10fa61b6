"""The entries of access control lists, which allow or deny operations to principals; and the filters that select them.

Pure values, used on any thread. Kafka: AccessControlEntry, AclBinding, their filters, SecurityUtils.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.security.acl.resource_pattern import ResourcePattern, ResourcePatternFilter
from barnabas.security.principal import Principal, malformed_principal

ANY_PRINCIPAL = "User:*"
ANY_HOST = "*"


class AccessControlEntry(NamedTuple):
    """What a principal (`User:alice`, or `User:*` for all) may do, or not, from a host (an address, or `*` for all)."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    @property
    def is_unknown(self) -> bool:
        """Whether the entry has a code that this version does not know."""
        return self.operation is AclOperation.UNKNOWN or self.permission_type is AclPermissionType.UNKNOWN

    def __str__(self) -> str:
        what, permission = self.operation.name, self.permission_type.name
        return f"{self.principal} has {permission} permission for operations: {what} from hosts: {self.host}"


class AccessControlEntryFilter(NamedTuple):
    """A selection of entries. None and ANY select every value."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return whether the filter selects the entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


class AclBinding(NamedTuple):
    """An entry and the resources it is about."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    @property
    def is_unknown(self) -> bool:
        """Whether a part has a code that this version does not know."""
        return self.pattern.is_unknown or self.entry.is_unknown


class AclBindingFilter(NamedTuple):
    """A selection of bindings."""

    pattern: ResourcePatternFilter = ResourcePatternFilter()
    entry: AccessControlEntryFilter = AccessControlEntryFilter()

    @property
    def is_unknown(self) -> bool:
        """Whether a part has a code that this version does not know."""
        pattern, entry = self
        return (
            pattern.resource_type is ResourceType.UNKNOWN
            or pattern.pattern_type is PatternType.UNKNOWN
            or entry.operation is AclOperation.UNKNOWN
            or entry.permission_type is AclPermissionType.UNKNOWN
        )

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter selects the binding."""
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)


def parse_principal(text: str) -> str:
    """Return the text of a principal that has a type, `type:name`. Raises ValueError: it has not this form."""
    if not Principal.parse(text).type:
        raise malformed_principal(text)
    return text
