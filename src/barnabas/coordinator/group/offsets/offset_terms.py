"""The requests of the handlers of committed offsets to the coordinator, and the answers. Immutable.

Made by `api.handlers.offsets`, read by the offset services; results go the other way.
Kafka: OffsetCommitRequestData, OffsetFetchRequestData, OffsetFetchResponseData.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offsets import OffsetCommitRequestPartition

NO_OFFSET = -1
"""The answer for a partition without a committed offset."""


class CommitTerms:
    """The client that commits. generation: or the member epoch; -1 of a client without membership.

    retention_ms: how long to keep the offsets, -1 for the broker's setting. tells_missing_groups: the request's version
    knows an error for a group that does not exist. names_times: the client says when each offset was committed.
    """

    __slots__ = (
        "generation",
        "group_id",
        "group_instance_id",
        "member_id",
        "names_times",
        "retention_ms",
        "tells_missing_groups",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        retention_ms: int = -1,
        tells_missing_groups: bool = False,
        names_times: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        # v7: static membership (KIP-345).
        self.group_instance_id = group_instance_id
        self.generation = generation
        # v2 to v4: since v5 the broker's setting counts alone (KIP-211).
        self.retention_ms = retention_ms
        # v9: the first version for consumer groups (KIP-848).
        self.tells_missing_groups = tells_missing_groups
        # v1 alone: since v2 the broker's clock says when an offset was committed.
        self.names_times = names_times


class TopicToCommit:
    """The new offsets of one topic: `partitions` of a request.

    partitions: as the request has them, of which what consumers do most often makes no copy. committed_leader_epoch -1:
    not known. commit_timestamp: -1, or the client's commit time (`CommitTerms.names_times`).
    """

    __slots__ = ("partitions", "topic")

    def __init__(self, topic: str, partitions: list[OffsetCommitRequestPartition]) -> None:
        self.topic = topic
        self.partitions = partitions


def count_of(topics: list[TopicToCommit]) -> int:
    """Return the number of offsets."""
    return sum([len(topic.partitions) for topic in topics])


class OffsetFetchTerms(NamedTuple):
    """A request for the offsets of one group. topics None: of all partitions. member_id None: the client names none.

    require_stable: the answer for an offset that an open transaction changes is an error (KIP-447).
    """

    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    # v7 (KIP-447).
    require_stable: bool = False
    # v9: the member and its epoch, which a consumer group checks (KIP-848).
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
