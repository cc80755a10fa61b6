"""The session of a member of a classic group: how long the member may stay silent.

Made by `ClassicMembers`, guarded by the group's lock. One `DelayedHeartbeat` watches each session. A heartbeat moves
`expires_ns` only: the timer's entry stays where it is, and is moved when the timer reaches it. Pure.
Kafka: MemberMetadata.heartbeatSatisfied, and the expiration of pending members.
"""

from __future__ import annotations


class Session:
    """The deadline of one member, or of a member id that was handed out and has not joined yet (KIP-394: pending).

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
