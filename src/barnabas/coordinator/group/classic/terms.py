"""What members of a classic group ask for, and what they are answered.

Made by `api.handlers.classic_groups` (terms) and `ClassicGroup` (answers); immutable, so they cross threads freely.
Kafka: the parameters of GroupCoordinator.handleJoinGroup and its siblings; JoinGroupResult, SyncGroupResult,
LeaveGroupResult.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode

UNKNOWN_MEMBER_ID: Final = ""
"""The member id of a member that has none yet."""
NO_GENERATION: Final = -1
NO_LEADER: Final = ""

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of what a member can be assigned by, the one it likes best first."""


class JoinTerms(NamedTuple):
    """A JoinGroup. Times in milliseconds.

    needs_known_member_id: a new dynamic member is told its id first, and comes again (KIP-394; since v4).
    can_skip_assignment: a leader understands that it shall not assign anything (KIP-814; since v9).
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_known_member_id: bool = False
    can_skip_assignment: bool = False
    reason: str | None = None


class JoinedMember(NamedTuple):
    """A member as the leader sees it: `metadata` belongs to the protocol that was chosen."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """What a join ends with. members: the whole group, for its leader; else nobody."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = NO_LEADER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncTerms(NamedTuple):
    """A SyncGroup. protocol_type, protocol_name: None where the version does not say (before v5)."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class SyncAnswer(NamedTuple):
    """What a sync ends with: the member's part of the leader's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """Who shall leave: by member id, or an administrator names the static member only (member id "")."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeftMember(NamedTuple):
    """What became of it."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveAnswer(NamedTuple):
    """What a leave ends with. error: of the whole; then no member is named."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()
