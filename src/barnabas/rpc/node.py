"""A broker as a client sees it. Immutable; used by every thread."""

from __future__ import annotations

from typing import NamedTuple

NO_NODE_ID = -1


class Node(NamedTuple):
    """Id, address and rack of a broker. Bootstrap addresses, whose ids nobody knows yet, count down from -1."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"
