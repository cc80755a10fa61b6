"""A member of a classic group, and what it waits for.

Held by `ClassicMembers`, guarded by the group's lock. Pure. Kafka: MemberMetadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.coordinator.group.classic.session import Session
from barnabas.coordinator.group.classic.terms import JoinAnswer, Protocols, SyncAnswer

JoinReply = Callable[[JoinAnswer], None]
SyncReply = Callable[[SyncAnswer], None]

NO_ASSIGNMENT: Final = b""


class ClassicMember:
    """One member. Times in milliseconds; protocols: the one it likes best first.

    join_reply, sync_reply: how to answer the request of it that waits, or None.
    is_new: it has not been told its id yet, so it cannot send heartbeats.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        session: Session,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.session = session
        self.assignment = assignment
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None
        self.is_new = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it waits: then it cannot send heartbeats, and need not."""
        return self.join_reply is not None or self.sync_reply is not None

    @property
    def protocol_names(self) -> set[str]:
        """What it can be assigned by."""
        return {name for name, _ in self.protocols}

    def metadata(self, protocol_name: str) -> bytes:
        """What it says under this protocol, which must be one of its own; the first of that name counts."""
        return next(metadata for name, metadata in self.protocols if name == protocol_name)

    def vote(self, candidates: set[str]) -> str:
        """The candidate it likes best; at least one of them is its own."""
        return next(name for name, _ in self.protocols if name in candidates)
