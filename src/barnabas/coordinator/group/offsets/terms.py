"""What the handlers of committed offsets ask of the coordinator, and what they get. Immutable.

Made by `api.handlers.offsets`, read by the offset services; results go the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.coordinator.group.log.schemas import NO_TIMESTAMP
from barnabas.protocol.errors import ErrorCode

NO_OFFSET = -1
"""What is answered for a partition of which nothing is committed."""


class CommitTerms(NamedTuple):
    """Who commits. generation: or member epoch; -1: nobody in particular.

    retention_ms: how long the offsets shall be kept, -1 as long as the broker says (v2-4). tells_missing_groups: the
    version knows an error for a group that does not exist.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    retention_ms: int = -1
    tells_missing_groups: bool = False


class OffsetToCommit(NamedTuple):
    """One partition's. leader_epoch -1: not known. timestamp_ms: when it was committed, if the client says (v1)."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    timestamp_ms: int = NO_TIMESTAMP


class OffsetFetchTerms(NamedTuple):
    """What is asked of one group. topics None: whatever is committed. member_id None: nobody in particular asks.

    require_stable: what an open transaction is about to change is an error (KIP-447).
    """

    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class FetchedOffset(NamedTuple):
    """One partition's. offset -1: nothing is committed, or there is an error."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedOffsets(NamedTuple):
    """A group's, in the order of the question. With an error there are no topics."""

    error: ErrorCode
    topics: Sequence[tuple[str, Sequence[FetchedOffset]]] = ()
