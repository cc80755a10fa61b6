"""How long a member of a classic group may stay silent.

Made by `ClassicGroup`, guarded by the group's lock; `DelayedHeartbeat` watches one session each. A heartbeat only
moves `expires_ns`: the timer's entry stays where it is, and is moved when it is reached. Pure.
Kafka: MemberMetadata.heartbeatSatisfied, and the expiration of pending members.
"""

from __future__ import annotations


class Session:
    """One member's right to stay: known to the group, or only promised a place (KIP-394: pending).

    expires_ns: monotonic time at which the member is given up. timeout_ms: each heartbeat moves that so far beyond now;
    whoever watches looks at least that often, for a first deadline that was later may have come closer.
    is_over: the member left, or another session took this one's place.
    """

    __slots__ = ("expires_ns", "is_over", "member_id", "timeout_ms")

    def __init__(self, member_id: str, expires_ns: int, timeout_ms: int) -> None:
        self.member_id = member_id
        self.expires_ns = expires_ns
        self.timeout_ms = timeout_ms
        self.is_over = False
