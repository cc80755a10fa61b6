"""The requests of a classic group's member and their answers; the member: its terms, session, and pending requests.

Requests are made by `api.handlers.classic_groups`, answers by `ClassicGroup`; immutable, so they cross threads freely.
A member is held by `ClassicMembers`, guarded by the group's lock. Pure.
Kafka: the parameters of GroupCoordinator.handleJoinGroup and its siblings, JoinGroupResult, SyncGroupResult,
LeaveGroupResult; MemberMetadata (with heartbeatSatisfied), and the expiration of pending members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.coordinator.group.offsets_topic import GroupMetadataValue
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


NO_ASSIGNMENT: Final = b""

JoinReply = Callable[[JoinAnswer], None]
SyncReply = Callable[[SyncAnswer], None]


class Session:
    """The deadline of one member, or of a member id that was handed out and has not joined yet (KIP-394: pending).

    One `DelayedHeartbeat` watches each session. A heartbeat moves `expires_ns` only: the timer's entry stays where it
    is, and is moved when the timer reaches it.

    expires_ns: the monotonic time at which the session expires. timeout_ns: how far each sign of life moves that
    beyond the present. The watch looks at least that often, because a first deadline may be further away than those
    that follow it. is_over: the member left, or another session replaced this one.
    """

    __slots__ = ("expires_ns", "is_over", "member_id", "timeout_ns")

    def __init__(self, member_id: str, expires_ns: int, timeout_ns: int) -> None:
        self.member_id = member_id
        self.expires_ns = expires_ns
        self.timeout_ns = timeout_ns
        self.is_over = False


class MemberTerms(NamedTuple):
    """The description that a member gave of itself when it joined.

    Times in milliseconds. protocols: the preferred one first.
    """

    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_names(self) -> set[str]:
        """The names of the protocols that the member can be assigned by."""
        return {name for name, _ in self.protocols}


class ClassicMember:
    """One member of a group.

    join_reply, sync_reply: how to answer the member's pending JoinGroup or SyncGroup, or None.
    is_new: the member has not been told its id yet, so it cannot send heartbeats.
    """

    __slots__ = (
        "assignment",
        "group_instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "session",
        "sync_reply",
        "terms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        terms: MemberTerms,
        session: Session,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.terms = terms
        self.session = session
        self.assignment = assignment
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None
        self.is_new = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member is pending: it sends no heartbeats meanwhile."""
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol that it has. If it names one twice, the first counts."""
        return next(metadata for name, metadata in self.terms.protocols if name == protocol_name)

    def vote(self, candidates: set[str]) -> str:
        """Return the candidate that the member prefers. At least one candidate is its own."""
        return next(name for name, _ in self.terms.protocols if name in candidates)

    def stored(self, protocol_name: str, assignment: bytes) -> GroupMetadataValue.MemberMetadata:
        """Return the member's part of the group's record in `__consumer_offsets`."""
        return GroupMetadataValue.MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.terms.client_id,
            client_host=self.terms.client_host,
            rebalance_timeout=self.terms.rebalance_timeout_ms,
            session_timeout=self.terms.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )
