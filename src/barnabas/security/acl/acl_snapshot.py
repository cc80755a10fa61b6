"""All access control lists at one moment, indexed for decisions.

Made by `AclAuthorizer` whenever a list changes, and read by any thread; immutable but for `_decisions` and
`_type_decisions`, caches that belong to the snapshot and so end with it. An operation on one key of a dictionary is
atomic in every Python; two threads that decide the same write the same value, and one that finds a cache just emptied
decides again. No lock, therefore.

The lists for a resource are found by name: those of `*`, those of the very name, and those of each prefix, for which
only the lengths that occur are tried. With 10,000 prefixed patterns of 20 lengths that is 20 look-ups, once for each
principal, host, operation and resource; afterwards the decision is one look-up.

Kafka: AclAuthorizer.authorizeAction, matchingAcls, authorizeByResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from barnabas.security.acl.acl_binding import (
    ANY_HOST,
    ANY_PRINCIPAL,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    ResourcePattern,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

Lists = Mapping[ResourcePattern, frozenset[AccessControlEntry]]

MAX_DECISIONS: Final = 20_000
"""How many decisions are kept. A client can ask about any name, so that the cache must have a bound."""

# Whoever may do the second may do the first. Only for what is allowed: a denied operation denies no other.
IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
"""Operation -> the operations of which one must be allowed; itself alone for those not named."""


Question: TypeAlias = tuple[str, str, AclOperation, ResourceType, str]
"""Principal, client's address as its connection has it, operation, type and name of the resource: plain, since it is
made for every action of every request."""


class Subject(NamedTuple):
    """The principal and the host that ask."""

    principal: str
    host: str

    def is_meant_by(self, entry: AccessControlEntry) -> bool:
        """Return whether the entry is about this principal and host."""
        return entry.principal in (self.principal, ANY_PRINCIPAL) and entry.host in (self.host, ANY_HOST)


class Verdict(NamedTuple):
    """A decision. reason: the entry that decided; None without one."""

    is_allowed: bool
    reason: AccessControlEntry | None
    has_lists: bool
    """Whether any list is about the resource."""


class AclSnapshot:
    """The lists. allow_if_none: whether everything is allowed to a resource that no list is about."""

    def __init__(self, lists: Lists, *, allow_if_none: bool) -> None:
        self.lists = lists
        self._allow_if_none = allow_if_none
        self._decisions: dict[Question, bool] = {}
        self._type_decisions: dict[tuple[Subject, AclOperation, ResourceType], bool] = {}
        self._prefix_lengths = _prefix_lengths(lists)

    def with_list(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> AclSnapshot:
        """Return a snapshot in which a pattern has these entries; without the pattern if there are none."""
        lists = dict(self.lists)
        if entries:
            lists[pattern] = entries
        else:
            lists.pop(pattern, None)
        return AclSnapshot(lists, allow_if_none=self._allow_if_none)

    def bindings(self) -> Iterator[AclBinding]:
        """Yield every entry with its pattern."""
        for pattern, entries in self.lists.items():
            for entry in entries:
                yield AclBinding(pattern, entry)

    # -- decisions

    def is_allowed(self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the subject may do an operation to a resource."""
        return self.decide(subject, operation, resource_type, name).is_allowed

    def known_decision(self, question: Question) -> bool | None:
        """Return the decision that is remembered for a question, or None."""
        return self._decisions.get(question)

    def remember(self, question: Question, is_allowed: bool) -> None:
        """Remember a decision until the lists change."""
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[question] = is_allowed

    def decide(self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str) -> Verdict:
        """Decide afresh, with the reason: deny before allow, and what is not allowed is denied."""
        lists = list(self._lists_about(resource_type, name))
        if not lists:
            return Verdict(self._allow_if_none, None, has_lists=False)
        denied = _first(lists, subject, (operation, AclOperation.ALL), AclPermissionType.DENY)
        if denied is not None:
            return Verdict(False, denied, has_lists=True)
        sufficient = (*IMPLIED_BY.get(operation, (operation,)), AclOperation.ALL)
        allowed = _first(lists, subject, sufficient, AclPermissionType.ALLOW)
        return Verdict(allowed is not None, allowed, has_lists=True)

    def is_allowed_somewhere(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the subject may do an operation to at least one resource of a type, existing or not."""
        key = (subject, operation, resource_type)
        known = self._type_decisions.get(key)
        if known is None:
            known = self._decide_by_type(subject, operation, resource_type)
            if len(self._type_decisions) >= MAX_DECISIONS:
                self._type_decisions.clear()
            self._type_decisions[key] = known
        return known

    def _lists_about(self, resource_type: ResourceType, name: str) -> Iterator[frozenset[AccessControlEntry]]:
        lists = self.lists
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                break
            found = lists.get(ResourcePattern(resource_type, name[:length], PatternType.PREFIXED))
            if found is not None:
                yield found
        for literal in (WILDCARD, name):
            found = lists.get(ResourcePattern(resource_type, literal, PatternType.LITERAL))
            if found is not None:
                yield found

    # A resource is left to the subject when a pattern that allows it is not within one that denies it. An allowed
    # prefix within no denied prefix always leaves one: denied literals inside it are finitely many.
    def _decide_by_type(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        operations = (operation, AclOperation.ALL)
        denied = self._patterns(subject, operations, AclPermissionType.DENY, resource_type)
        denied_literals = {each.name for each in denied if each.pattern_type is PatternType.LITERAL}
        if WILDCARD in denied_literals:
            return False
        if self._allow_if_none:
            return True
        denied_prefixes = {each.name for each in denied if each.pattern_type is PatternType.PREFIXED}

        def is_within_denied(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        for pattern in self._patterns(subject, operations, AclPermissionType.ALLOW, resource_type):
            name, is_literal = pattern.name, pattern.pattern_type is PatternType.LITERAL
            if is_literal and name == WILDCARD:
                return True
            if not is_within_denied(name) and not (is_literal and name in denied_literals):
                return True
        return False

    def _patterns(
        self,
        subject: Subject,
        operations: tuple[AclOperation, ...],
        permission: AclPermissionType,
        resource_type: ResourceType,
    ) -> list[ResourcePattern]:
        """Return the patterns of a type that have such an entry for the subject."""
        return [
            pattern
            for pattern, entries in self.lists.items()
            if pattern.resource_type is resource_type and _first([entries], subject, operations, permission) is not None
        ]


def _first(
    lists: Iterable[frozenset[AccessControlEntry]],
    subject: Subject,
    operations: tuple[AclOperation, ...],
    permission: AclPermissionType,
) -> AccessControlEntry | None:
    """Return an entry of the lists with this permission for the subject and one of the operations, or None."""
    for entries in lists:
        for entry in entries:
            if entry.permission_type is permission and entry.operation in operations and subject.is_meant_by(entry):
                return entry
    return None


def _prefix_lengths(lists: Lists) -> dict[ResourceType, list[int]]:
    """Return the lengths of the prefixes of each type, ascending."""
    found: dict[ResourceType, set[int]] = {}
    for pattern in lists:
        if pattern.pattern_type is PatternType.PREFIXED:
            found.setdefault(pattern.resource_type, set()).add(len(pattern.name))
    return {kind: sorted(lengths) for kind, lengths in found.items()}
