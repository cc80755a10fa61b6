"""The authorizer: decides by access control lists and super users, and logs what it decides.

Made by `broker`; asked by handlers on any thread, without a lock: `_snapshot` is immutable and replaced as a whole.
`metadata.acl_admin` replaces it, under its own lock, whenever lists change. The log is `kafka.authorizer.logger`:
denied attempts at INFO, permitted ones at DEBUG, with the reasons.

Kafka: AclAuthorizer; StandardAuthorizer decides the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from barnabas.protocol.api_keys import ApiKey
from barnabas.security.acl.acl_binding import AccessControlEntry, ResourcePattern, parse_principal
from barnabas.security.acl.acl_codes import AclOperation, Action, PatternType, ResourceType
from barnabas.security.acl.acl_snapshot import AclSnapshot, Subject

LOGGER_NAME: Final = "kafka.authorizer.logger"
TRACE: Final = 5

logger = logging.getLogger(LOGGER_NAME)

_NO_NAME: Final = "NONE"


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
        """The lists in force."""
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
