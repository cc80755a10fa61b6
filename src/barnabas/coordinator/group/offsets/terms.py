"""The requests of the handlers of committed offsets to the coordinator, and the answers. Immutable.

Made by `api.handlers.offsets`, read by the offset services; results go the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.coordinator.group.log.schemas import NO_TIMESTAMP
from barnabas.protocol.errors import ErrorCode

NO_OFFSET = -1
"""The answer for a partition without a committed offset."""


class CommitTerms(NamedTuple):
    """The client that commits. generation: or member epoch; -1 of a client without membership.

    retention_ms: how long to keep the offsets, -1 for the broker's setting (v2-4). tells_missing_groups: the request's
    version knows an error for a group that does not exist.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    retention_ms: int = -1
    tells_missing_groups: bool = False


class OffsetToCommit(NamedTuple):
    """The new offset of one partition. leader_epoch -1: not known. timestamp_ms: the client's commit time (v1)."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    timestamp_ms: int = NO_TIMESTAMP


class OffsetFetchTerms(NamedTuple):
    """A request for the offsets of one group. topics None: of all partitions. member_id None: the client names none.

    require_stable: the answer for an offset that an open transaction changes is an error (KIP-447).
    """

    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class FetchedOffset(NamedTuple):
    """The offset of one partition. offset -1: nothing is committed, or there is an error."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedOffsets(NamedTuple):
    """The offsets of a group, in the order of the request. With an error there are no topics."""

    error: ErrorCode
    topics: Sequence[tuple[str, Sequence[FetchedOffset]]] = ()
