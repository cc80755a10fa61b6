"""The requests of members of classic groups, and the answers to them.

Made by `api.handlers.classic_groups` (terms) and `ClassicGroup` (answers); immutable, so they cross threads freely.
Kafka: JoinGroupResult, SyncGroupResult, LeaveGroupResult, and the parameters of GroupCoordinator.handleJoinGroup and
its siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode

UNKNOWN_MEMBER_ID: Final = ""
"""The member id in the requests of a member that has none yet."""
NO_GENERATION: Final = -1
NO_LEADER: Final = ""

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols (assignors) that a member knows, the preferred one first."""


class JoinTerms(NamedTuple):
    """A JoinGroup request. Times in milliseconds.

    needs_known_member_id: a new dynamic member is told its id first, and joins again with it (KIP-394; since v4).
    can_skip_assignment: a leader understands the request to assign nothing (KIP-814; since v9).
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
    # v8: why the member joins; shown in the log (KIP-800).
    reason: str | None = None


class JoinedMember(NamedTuple):
    """A member in the leader's list. metadata: of the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to a JoinGroup request. members: the whole group, for its leader; empty for other members."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    # v7: the type beside the name; clients check both (KIP-559).
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = NO_LEADER
    members: tuple[JoinedMember, ...] = ()
    # v9: the leader is to keep the assignment (KIP-814).
    skip_assignment: bool = False


class SyncTerms(NamedTuple):
    """A SyncGroup request. protocol_type, protocol_name: None before v5, which added them (KIP-559)."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class SyncAnswer(NamedTuple):
    """The answer to a SyncGroup request: the member's part of the leader's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """A member to remove, by its member id. An administrator names a static member by its instance id alone."""

    member_id: str
    # v3: the instance id, and several members in a request (KIP-345).
    group_instance_id: str | None = None
    # v5: shown in the log (KIP-800).
    reason: str | None = None


class LeftMember(NamedTuple):
    """The result for one LeavingMember."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveAnswer(NamedTuple):
    """The answer to a LeaveGroup request. error: of the whole request; then no member is named."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()
