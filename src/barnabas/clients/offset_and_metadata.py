"""A committed offset, as consumers commit and read it and as administrators see it (Kafka: OffsetAndMetadata)."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """The next offset a group reads. `leader_epoch` is that of the record before it; -1: not known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
