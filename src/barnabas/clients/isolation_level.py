"""The isolation levels of readers: Kafka's names for users, and the numbers that requests carry (KIP-98).

Read by consumer, admin client and offset look-up; constants, no lock. Kafka: IsolationLevel.
"""

from __future__ import annotations

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def isolation_number(level: str) -> int:
    """Return the number of a level. Raises ValueError for an unknown name."""
    if level not in ISOLATION_LEVELS:
        raise ValueError(f"isolation_level is {level!r}; it must be read_uncommitted or read_committed")
    return ISOLATION_LEVELS[level]
