"""Access control lists as values: the patterns of resources, the entries for principals, and the filters of both.

Immutable, used on any thread. Kafka: AclBinding, AccessControlEntry, ResourcePattern, their filters, SecurityUtils.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.security.principal import Principal, malformed_principal

WILDCARD = "*"
"""The name of a literal pattern that stands for every resource of its type; also a principal's name and a host."""
ANY_PRINCIPAL = "User:*"
ANY_HOST = "*"


class ResourcePattern(NamedTuple):
    """A type of resource, a name, and how the name is meant."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    @property
    def is_unknown(self) -> bool:
        """Whether the pattern has a code that this version does not know."""
        return ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern_type

    def matches(self, name: str) -> bool:
        """Return whether the pattern stands for the resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        kind, how = self.resource_type.name, self.pattern_type.name
        return f"ResourcePattern(resourceType={kind}, name={self.name}, patternType={how})"


class ResourcePatternFilter(NamedTuple):
    """A selection of patterns. name: None for every name.

    pattern_type: ANY selects patterns of exactly this name, of either type; MATCH selects all patterns that stand for a
    resource of this name.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Return whether the filter selects the pattern."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.matches(self.name)
        return self.name == pattern.name

    def only_patterns(self) -> tuple[ResourcePattern, ...]:
        """Return the patterns that the filter can select, if it names them; none if it may select any number."""
        if self.name is None or self.resource_type in (ResourceType.ANY, ResourceType.UNKNOWN):
            return ()
        if self.pattern_type is PatternType.ANY:
            kinds: tuple[PatternType, ...] = (PatternType.LITERAL, PatternType.PREFIXED)
        elif self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            kinds = (self.pattern_type,)
        else:
            return ()
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


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
    """A selection of bindings: those that match both filters."""

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
