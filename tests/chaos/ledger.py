"""What the writers of a campaign were told, to hold against what the broker has after a crash.

Values are unique within a campaign. Filled by writers' threads and delivery callbacks, read by the campaign while the
writers rest: appends to lists and sets of dictionary items need no lock of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PartitionLedger:
    """One partition. sent: values in the order in which they were given to the client. acknowledged: offset of each
    value whose delivery was reported. failed: values whose delivery failed: they may be there once, or not at all."""

    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    failed: set[bytes] = field(default_factory=set)
    last_of_key: dict[bytes, bytes] = field(default_factory=dict)
    """The last value sent of each key, where there are keys."""

    @property
    def outstanding(self) -> int:
        """Values whose fate is not known yet."""
        return len(self.sent) - len(self.acknowledged) - len(self.failed)


class Ledger:
    """All partitions of one topic."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = [PartitionLedger() for _ in range(partitions)]

    @property
    def outstanding(self) -> int:
        """Values whose fate is not known yet."""
        return sum(partition.outstanding for partition in self.partitions)

    @property
    def acknowledged(self) -> int:
        """Number of records whose delivery was reported."""
        return sum(len(partition.acknowledged) for partition in self.partitions)
