"""A committed offset, for consumers and for administrators (Kafka: OffsetAndMetadata)."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """The offset that a group reads next. `leader_epoch`: that of the record before it, or -1."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
