"""A broker as a client sees it.

Used by every thread; immutable, so no lock. Kafka: org.apache.kafka.common.Node.
"""

from __future__ import annotations

from typing import NamedTuple


class Node(NamedTuple):
    """Id, address and rack of a broker. The ids of bootstrap addresses, which are unknown yet, count down from -1."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"
