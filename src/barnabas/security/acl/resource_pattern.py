"""The patterns that name resources in access control lists, and the filters that select patterns.

Pure values, used on any thread. Kafka: ResourcePattern, ResourcePatternFilter.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.acl.acl_codes import PatternType, ResourceType

WILDCARD = "*"
"""The name of a literal pattern that stands for every resource of its type; also a principal's name and a host."""


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
