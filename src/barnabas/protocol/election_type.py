"""The kinds of leader elections: the replicas that may become leader. Immutable, for clients and controller.

Kafka: ElectionType.
"""

from __future__ import annotations

from enum import IntEnum


class ElectionType(IntEnum):
    """PREFERRED: the first replica of the assignment. UNCLEAN: any replica that is alive, even if records are lost."""

    PREFERRED = 0
    UNCLEAN = 1
