"""The authorizer: decides by access control lists and super users, and logs what it decides.

Made by `broker`; asked by handlers on any thread, without a lock: `_snapshot` is immutable and replaced as a whole.
`metadata.acl_admin` replaces it, under its own lock, whenever lists change. The log is `kafka.authorizer.logger`:
denied attempts at INFO, permitted ones at DEBUG, with the reasons.

An `AclSnapshot` is immutable but for `_decisions` and `_type_decisions`, caches that belong to it and so end with it.
An operation on one key of a dictionary is atomic in every Python; two threads that decide the same write the same
value, and one that finds a cache just emptied decides again. No lock, therefore.

The lists for a resource are found by name: those of `*`, those of the very name, and those of each prefix, for which
only the lengths that occur are tried. With 10,000 prefixed patterns of 20 lengths that is 20 look-ups, once for each
principal, host, operation and resource; afterwards the decision is one look-up.

Kafka: AclAuthorizer; StandardAuthorizer decides the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.protocol.api_keys import ApiKey
from barnabas.runtime.logger_levels import TRACE
from barnabas.security.acl.acl_binding import (
    ANY_HOST,
    ANY_PRINCIPAL,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    ResourcePattern,
    parse_principal,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, Action, PatternType, ResourceType

LOGGER_NAME: Final = "kafka.authorizer.logger"
"""`broker.stages.front_stage` sets its level, also for a broker without an authorizer."""

logger = logging.getLogger(LOGGER_NAME)

_NO_NAME: Final = "NONE"

Lists = Mapping[ResourcePattern, frozenset[AccessControlEntry]]

MAX_DECISIONS: Final = 20_000
"""How many decisions are kept. A client can ask about any name, so that the cache must have a bound."""

# A principal that may do the second may do the first. Only for what is allowed: a denied operation denies no other.
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


class AuthorizableConnection(Protocol):
    """What the authorizer reads of a connection. client_address: an IP address, also in brackets."""

    principal: str
    client_address: str


class AclAuthorizer:
    """The authorizer. It knows no list until it is given some, and then denies what they do not allow.

    super_users: principals that may do everything. allow_if_none: whether everything is allowed to a resource that no
    list is about.
    """

    def __init__(self, super_users: frozenset[str], *, allow_if_none: bool) -> None:
        self._super_users = super_users
        self._snapshot = AclSnapshot({}, allow_if_none=allow_if_none)
        self._allow_if_none = allow_if_none

    @property
    def snapshot(self) -> AclSnapshot:
        """The lists in force at this moment."""
        return self._snapshot

    def replace_all(self, lists: Mapping[ResourcePattern, frozenset[AccessControlEntry]]) -> None:
        """Put lists in force in place of all others."""
        self._snapshot = AclSnapshot(lists, allow_if_none=self._allow_if_none)

    def replace(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        """Put the entries of one pattern in force. The caller sees to it that no other thread does so at the time."""
        if self._snapshot.lists.get(pattern, frozenset()) != entries:
            self._snapshot = self._snapshot.with_list(pattern, entries)

    # -- decisions

    def authorize(
        self, connection: AuthorizableConnection, actions: Sequence[Action], api_key: ApiKey
    ) -> Sequence[bool]:
        """Return for each of `actions`, in their order, whether the client of `connection` may do it."""
        snapshot, principal = self._snapshot, connection.principal
        is_verbose = logger.isEnabledFor(logging.DEBUG)
        is_super = principal in self._super_users
        if is_super and not is_verbose:
            return [True] * len(actions)
        address = connection.client_address
        if is_verbose:
            subject = Subject(principal, host_address(address))
            return [_decide_aloud(snapshot, subject, each, api_key, is_super=is_super) for each in actions]
        answers = []
        for action in actions:
            question = (principal, address, action[0], action[1], action[2])
            allowed = snapshot.known_decision(question)
            if allowed is None:
                allowed = snapshot.is_allowed(Subject(principal, host_address(address)), *question[2:])
                snapshot.remember(question, allowed)
            if not allowed:
                _log(Subject(principal, host_address(address)), action, PatternType.LITERAL, api_key, allowed=False)
            answers.append(allowed)
        return answers

    def is_known_to_allow(
        self, connection: AuthorizableConnection, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return True where `authorize` has allowed this under the lists in force, and would log nothing now.

        One look-up: produces and fetches ask this first.
        """
        if logger.isEnabledFor(logging.DEBUG):
            return False
        principal = connection.principal
        question = (principal, connection.client_address, operation, resource_type, name)
        return principal in self._super_users or self._snapshot.known_decision(question) is True

    def allows_for_want_of_lists(
        self, connection: AuthorizableConnection, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether everything is allowed to this client there only because no list is about the resource."""
        if not self._allow_if_none or connection.principal in self._super_users:
            return False
        subject = Subject(connection.principal, host_address(connection.client_address))
        return not self._snapshot.decide(subject, AclOperation.CLUSTER_ACTION, resource_type, name).has_lists

    def authorize_by_resource_type(
        self,
        connection: AuthorizableConnection,
        operation: AclOperation,
        resource_type: ResourceType,
        api_key: ApiKey,
    ) -> bool:
        """Return whether the client may do `operation` to at least one resource of this type, existing or not."""
        principal = connection.principal
        if principal in self._super_users:
            _log_super_user(principal)
            return True
        subject = Subject(principal, host_address(connection.client_address))
        allowed = self._snapshot.is_allowed_somewhere(subject, operation, resource_type)
        action = Action(operation, resource_type, _NO_NAME, 0)
        _log(subject, action, PatternType.UNKNOWN, api_key, allowed=allowed)
        return allowed


def parse_super_users(text: str | None) -> frozenset[str]:
    """Return the principals of `super.users`: `User:alice;User:bob`. Raises ValueError: one is not `type:name`."""
    if not text:
        return frozenset()
    return frozenset(parse_principal(each.strip()) for each in text.split(";"))


@lru_cache(maxsize=4096)
def host_address(client_address: str) -> str:
    """Return an address as Java writes it, and as ACLs name hosts therefore: `0:0:0:0:0:0:0:1` and not `::1`."""
    try:
        address = ip_address(client_address.strip("[]").partition("%")[0])
    except ValueError:
        return client_address
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


# -- the log


def _log_super_user(principal: str) -> None:
    logger.debug("principal = %s is a super user, allowing operation without checking acls.", principal)


def _decide_aloud(snapshot: AclSnapshot, subject: Subject, action: Action, api_key: ApiKey, *, is_super: bool) -> bool:
    """Decide, and log the decision and the entry that decided."""
    if is_super:
        _log_super_user(subject.principal)
        allowed = True
    else:
        allowed = _decide_with_reason(snapshot, subject, action)
    _log(subject, action, PatternType.LITERAL, api_key, allowed=allowed)
    return allowed


def _decide_with_reason(snapshot: AclSnapshot, subject: Subject, action: Action) -> bool:
    verdict = snapshot.decide(subject, action.operation, action.resource_type, action.resource_name)
    resource = ResourcePattern(action.resource_type, action.resource_name, PatternType.LITERAL)
    if not verdict.has_lists:
        authorized = str(verdict.is_allowed).lower()
        logger.debug("No acl found for resource %s, authorized = %s", resource, authorized)
    if verdict.reason is not None:
        logger.debug(
            "operation = %s on resource = %s from host = %s is %s based on acl = %s",
            action.operation.name,
            resource,
            subject.host,
            verdict.reason.permission_type.name,
            verdict.reason,
        )
    return verdict.is_allowed


def _log(subject: Subject, action: Action, pattern_type: PatternType, api_key: ApiKey, *, allowed: bool) -> None:
    if allowed:
        level = logging.DEBUG if action.log_if_allowed else TRACE
    else:
        level = logging.INFO if action.log_if_denied else TRACE
    if not logger.isEnabledFor(level):
        return
    logger.log(
        level,
        "Principal = %s is %s Operation = %s from host = %s on resource = %s:%s:%s for request = %s "
        "with resourceRefCount = %d",
        subject.principal,
        "Allowed" if allowed else "Denied",
        action.operation.title,
        subject.host,
        action.resource_type.title,
        pattern_type.name,
        action.resource_name,
        api_key.name,
        action.reference_count,
    )
