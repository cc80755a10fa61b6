"""The small values that several clients share: isolation levels, committed offsets, identities. Immutable.

Made and read on any thread; no lock. Kafka: IsolationLevel, OffsetAndMetadata, ConsumerGroupMetadata.
"""

from __future__ import annotations

from typing import NamedTuple

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
"""Kafka's names for users, and the numbers that requests carry (KIP-98)."""


def isolation_number(level: str) -> int:
    """Return the number of a level. Raises ValueError for an unknown name."""
    if level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level is {level!r}; it must be read_uncommitted or read_committed")
    return ISOLATION_LEVELS[level]


class OffsetAndMetadata(NamedTuple):
    """The offset that a group reads next, as it is committed. `leader_epoch`: that of the record before it, or -1."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all written, and which any client may end now, by its producer's identity.

    Made by `Producer.prepare_transaction`, taken by `Admin.end_transaction`.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_version_2: bool = False
    """Whether it was begun under transaction.version 2, whose end raises the producer's epoch."""


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a consumer in its group, with which a transactional producer commits the consumer's offsets.

    `generation_id` is -1 and `member_id` "" until the consumer has joined a generation.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
