"""A committed offset, as consumers commit and read it and as administrators see it (Kafka: OffsetAndMetadata)."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """The next offset a group reads. `leader_epoch` is the epoch of the record before it, or -1."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
