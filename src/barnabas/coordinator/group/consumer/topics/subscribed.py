"""The topics that the members of a consumer group read, by name or by regular expression (KIP-848).

Owned by a `ConsumerGroup`, guarded by the group's lock. Pure. A topic is counted for as long as a member reads it.
Kafka: SubscriptionCount, ResolvedRegularExpression, and the parts of ModernGroup and ConsumerGroup that count them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.coordinator.group.assignors.assignor import GroupSubscriptionType
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """The topics that a regular expression matched, the metadata version, and the time (wall clock, ms)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class SubscribedTopics:
    """The numbers of subscribers of each topic and of each expression.

    by_name: topic -> members that name it. by_regex: topic -> resolved expressions that match it. members_by_regex:
    expression -> members that use it. resolved: expression -> the topics that it matched.
    """

    __slots__ = ("by_name", "by_regex", "members_by_regex", "resolved")

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.by_regex: Counter[str] = Counter()
        self.members_by_regex: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedRegularExpression] = {}

    def copy(self) -> SubscribedTopics:
        """Return a copy, for trial changes."""
        other = SubscribedTopics()
        other.by_name = self.by_name.copy()
        other.by_regex = self.by_regex.copy()
        other.members_by_regex = self.members_by_regex.copy()
        other.resolved = dict(self.resolved)
        return other

    def replace_member(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Count `new` instead of `old`. None stands for a member that joins (`old`) or leaves (`new`)."""
        if old is not None:
            _decrement(self.by_name, old.subscribed_topic_names)
            if old.subscribed_topic_regex:
                _decrement(self.members_by_regex, (old.subscribed_topic_regex,))
        if new is not None:
            self.by_name.update(new.subscribed_topic_names)
            if new.subscribed_topic_regex:
                self.members_by_regex[new.subscribed_topic_regex] += 1

    def resolve(self, regex: str, resolved: ResolvedRegularExpression | None) -> None:
        """Set the topics that an expression matches; None removes the expression."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _decrement(self.by_regex, before.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.by_regex.update(resolved.topics)

    def forget_unused(self) -> list[str]:
        """Remove the resolved expressions that no member uses any more, and return them."""
        unused = [regex for regex in self.resolved if regex not in self.members_by_regex]
        for regex in unused:
            self.resolve(regex, None)
        return unused

    def names(self) -> set[str]:
        """Return every topic that a member reads, whether it exists or not."""
        return {*self.by_name, *self.by_regex}

    def contains(self, topic: str) -> bool:
        """Return whether a member reads the topic."""
        return topic in self.by_name or topic in self.by_regex

    def names_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the topics that one member reads; an expression that is not resolved yet matches none."""
        resolved = self.resolved.get(member.subscribed_topic_regex or "")
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics

    def subscription_type(self, members: int) -> GroupSubscriptionType:
        """Return whether all members (their number is `members`) read the same topics."""
        if not self.members_by_regex:
            same = all(count == members for count in self.by_name.values()) and not self.by_regex
        else:
            # Homogeneous only with one expression that all members use, and with no name beside it.
            first = next(iter(self.members_by_regex.values()))
            same = first == members and not self.by_name and all(count == 1 for count in self.by_regex.values())
        return GroupSubscriptionType.HOMOGENEOUS if same else GroupSubscriptionType.HETEROGENEOUS


def _decrement(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        # Removed at 0, and not kept with it: the keys are the topics that are read.
        if counts[name] <= 1:
            del counts[name]
        else:
            counts[name] -= 1
