"""A member of a classic group: its terms, its session, its assignment, and its pending requests.

Held by `ClassicMembers`, guarded by the group's lock. Pure.
Kafka: MemberMetadata (with heartbeatSatisfied), and the expiration of pending members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.coordinator.group.classic.classic_group_terms import JoinAnswer, Protocols, SyncAnswer
from barnabas.coordinator.group.offsets_topic import GroupMetadataValue

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
