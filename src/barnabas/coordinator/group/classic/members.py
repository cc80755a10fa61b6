"""Who is in a classic group: members, static members' names, promised places, the leader, and what all can do.

Held by `ClassicGroup`, guarded by the group's lock. Pure. Kafka: the members' half of GroupMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from barnabas.coordinator.group.classic.member import ClassicMember, JoinReply
from barnabas.coordinator.group.classic.session import Session
from barnabas.coordinator.group.classic.terms import Protocols
from barnabas.protocol.consumer_protocol import decode_topics
from barnabas.protocol.errors import ErrorCode


class ClassicMembers:
    """The members in the order in which they came; the first one leads until it leaves.

    pending: places promised to members that were told their id and have not come with it yet (KIP-394).
    pending_syncs: members of the generation that have not sent a SyncGroup. waiting: how many wait for their join.
    """

    __slots__ = ("_protocol_counts", "by_id", "leader_id", "pending", "pending_syncs", "static_ids", "waiting")

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member id by group instance id (KIP-345)."""
        self.pending: dict[str, Session] = {}
        self.pending_syncs: set[str] = set()
        self.leader_id: str | None = None
        self.waiting = 0
        self._protocol_counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many members there are, promised places apart."""
        return len(self.by_id)

    @property
    def all_have_joined(self) -> bool:
        """Whether nobody is missing, promised places included."""
        return self.waiting == len(self.by_id) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members; 0 of none."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def check(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Is this the member that it says it is? FENCED_INSTANCE_ID: another took the static member's place."""
        if group_instance_id is not None:
            current = self.static_ids.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def can_all(self, protocol_names: Iterable[str]) -> bool:
        """Whether one of these is a protocol of every member."""
        return any(self._protocol_counts[name] == len(self.by_id) for name in protocol_names)

    def add(self, member: ClassicMember) -> None:
        """Let a member in, whose id and group instance id nobody has."""
        assert member.member_id not in self.by_id, member.member_id
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids, member.group_instance_id
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.by_id[member.member_id] = member
        self._protocol_counts.update(member.protocol_names)

    def remove(self, member: ClassicMember) -> None:
        """Take a member out; nothing of it waits any more. If it led, whoever has been here longest leads now."""
        assert not member.is_waiting, member.member_id
        del self.by_id[member.member_id]
        self._forget_protocols(member)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.by_id), None)
        self.pending_syncs.discard(member.member_id)

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """A static member goes on under another id, in the same place."""
        old_id = member.member_id
        self.by_id = {member_id if each == old_id else each: value for each, value in self.by_id.items()}
        member.member_id = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(member_id)
        assert member.group_instance_id is not None
        self.static_ids[member.group_instance_id] = member_id

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        """A member says anew what it can do."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._protocol_counts.update(member.protocol_names)

    def set_join_reply(self, member: ClassicMember, reply: JoinReply | None) -> None:
        """A member's join waits, or does not any more."""
        self.waiting += (reply is not None) - (member.join_reply is not None)
        member.join_reply = reply

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one of those who have joined; False if nobody has."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].join_reply is None:
            joined = next((member for member in self.by_id.values() if member.join_reply is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def subscribed_topics(self, protocol_name: str | None) -> frozenset[str] | None:
        """What the members of a consumer group read; None while no protocol is chosen. Raises DecodeError."""
        if not self.by_id:
            return frozenset()
        if protocol_name is None:
            return None
        return frozenset().union(*(decode_topics(each.metadata(protocol_name)) for each in self.by_id.values()))

    def select_protocol(self) -> str:
        """The protocol that most members like best, of those that all of them can; there is at least one."""
        candidates = {name for name, count in self._protocol_counts.items() if count == len(self.by_id)}
        votes = Counter(member.vote(candidates) for member in self.by_id.values())
        return max(votes, key=votes.__getitem__)

    def _forget_protocols(self, member: ClassicMember) -> None:
        self._protocol_counts.subtract(member.protocol_names)
        self._protocol_counts = +self._protocol_counts  # names that nobody has any more take no room
