"""What a transactional writer did and was told, to hold against what the cluster has.

A transaction writes values to the partitions of one topic, and may commit an offset of a group with them: its own
number plus one, so that the group's offset names the last transaction that was committed with offsets. Values are
unique within a campaign. One writer's thread appends; the campaign reads while the writer rests. Delivery callbacks of
any thread fill `acknowledged`: single items of a dictionary need no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """The end of a transaction as its writer knows it. UNKNOWN: the commit failed, or its answer was lost."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Written(NamedTuple):
    """A record of a transaction."""

    partition: int
    value: bytes


@dataclass(slots=True)
class TransactionEntry:
    """One transaction. sent: in the order of sending. has_offset: whether it commits the group's offset."""

    number: int
    has_offset: bool
    outcome: Outcome = Outcome.ABORTED
    sent: list[Written] = field(default_factory=list)


class TransactionLedger:
    """The transactions of one topic. acknowledged: the offset of each value whose delivery was reported.

    producers: how many producers the writer has made: one, and one more after each that failed.
    """

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.group = f"offsets-of-{topic}"
        self.entries: list[TransactionEntry] = []
        self.acknowledged: dict[bytes, int] = {}
        self.producers = 0

    def count(self, outcome: Outcome) -> int:
        """Return how many transactions ended so."""
        return sum(entry.outcome is outcome for entry in self.entries)
