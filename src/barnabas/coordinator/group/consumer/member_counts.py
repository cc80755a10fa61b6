"""The assignors and classic protocols of a consumer group's members, counted (KIP-848).

Held by `ConsumerGroup`, guarded by the group's lock, changed by the replay of records. Pure.
Kafka: ConsumerGroup (serverAssignors, numClassicProtocolMembers, classicProtocolMembersSupportedProtocols).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from barnabas.coordinator.group.consumer.member import ConsumerGroupMember


class MemberCounts:
    """The numbers of members by what they support, kept so that a request need not look at every member.

    classic: members that speak the classic protocol. classic_protocols: classic members by protocol name.
    """

    __slots__ = ("_assignors", "classic", "classic_protocols")

    def __init__(self) -> None:
        self._assignors: Counter[str] = Counter()
        self.classic = 0
        self.classic_protocols: Counter[str] = Counter()

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Count `new` instead of `old`. None stands for a member that joins (`old`) or leaves (`new`)."""
        _count(self._assignors, _assignor(old), _assignor(new))
        if old is not None and old.classic is not None:
            self.classic -= 1
            _count(self.classic_protocols, old.classic.protocol_names, ())
        if new is not None and new.classic is not None:
            self.classic += 1
            _count(self.classic_protocols, (), new.classic.protocol_names)

    def preferred_assignor(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> str | None:
        """Return the assignor that most members ask for, as if `new` replaced `old`; None: no member asks for one.

        With equal votes the assignor wins that only `new` asks for, then the name that is last in the alphabet: the
        order in which Kafka's hash table happens to hold "uniform" and "range".
        """
        counts = self._assignors.copy()
        _count(counts, _assignor(old), ())
        others = set(counts)
        counts.update(_assignor(new))
        return max(counts, key=lambda name: (counts[name], name not in others, name), default=None)


def _assignor(member: ConsumerGroupMember | None) -> tuple[str, ...]:
    return () if member is None or member.server_assignor is None else (member.server_assignor,)


def _count(counts: Counter[str], gone: Iterable[str], come: Iterable[str]) -> None:
    for name in gone:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]
    counts.update(come)
