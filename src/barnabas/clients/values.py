"""The isolation levels of readers: Kafka's names for users, and the numbers that requests carry (KIP-98).

Read by consumer, admin client and offset look-up; constants, no lock. Kafka: IsolationLevel.

A committed offset, for consumers and for administrators (Kafka: OffsetAndMetadata).

A transaction whose records are all written, and which any client may end now. An immutable value.

Made by `Producer.prepare_transaction`, taken by `Admin.end_transaction`.

The identity of a consumer in its group, for requests that other clients send in the consumer's name. Immutable.

A transactional producer commits a consumer's offsets with it. Kafka: ConsumerGroupMetadata.
"""

from __future__ import annotations

from typing import NamedTuple

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def isolation_number(level: str) -> int:
    """Return the number of a level. Raises ValueError for an unknown name."""
    if level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level is {level!r}; it must be read_uncommitted or read_committed")
    return ISOLATION_LEVELS[level]


class OffsetAndMetadata(NamedTuple):
    """The offset that a group reads next. `leader_epoch`: that of the record before it, or -1."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class PreparedTransaction(NamedTuple):
    """An open transaction, by the identity of its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_version_2: bool = False
    """Whether it was begun under transaction.version 2, whose end raises the producer's epoch."""


class ConsumerGroupMetadata(NamedTuple):
    """The identity of one consumer. `generation_id` is -1 and `member_id` "" until it has joined a generation."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
