"""How far a follower is in copying one partition, and where it has to cut its log. Pure.

Used by ReplicaFetcherThread. A partition is FETCHING from the moment its log knows a leader epoch: each fetch tells the
epoch of the last record, and a leader whose log parts from the follower's answers with the end of that epoch instead of
records (KIP-595; Kafka since 2.7). A log without an epoch is TRUNCATING first: it is cut at its high watermark.

    leader   epoch 1: 0-49   epoch 3: 50-79         ends at 80
    follower epoch 1: 0-49   epoch 2: 50-59         ends at 60, fetches from 60 with last epoch 2
    answer   diverging: epoch 1 ends at 50          the follower cuts at 50, fetches from 50 with last epoch 1

Kafka: PartitionFetchState, AbstractFetcherThread.getOffsetTruncationState.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas.storage.log.leader_epochs import EpochEntry

NO_EPOCH: Final = -1


class FetchPhase(Enum):
    """What the thread does with a partition: cut its log first, or copy."""

    TRUNCATING = "Truncating"
    FETCHING = "Fetching"


_TRUNCATING: Final = FetchPhase.TRUNCATING
_FETCHING: Final = FetchPhase.FETCHING


class FollowerLogPosition:
    """Where a log of this broker is. latest_epoch: the epoch of its last record, NO_EPOCH when none is known."""

    __slots__ = ("end_offset", "high_watermark", "latest_epoch", "start_offset")

    def __init__(self, start_offset: int, high_watermark: int, end_offset: int, latest_epoch: int) -> None:
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.end_offset = end_offset
        self.latest_epoch = latest_epoch


class FollowedState:
    """The copying of one partition; never changed.

    leader_epoch: that of the order to follow. last_fetched_epoch: of the last record below `fetch_offset`.
    lag: records that the leader shows and this replica lacks; None before the first answer. delayed_until_ns: the
    monotonic time before which the partition is left out, after an error; 0 for none.
    """

    __slots__ = (
        "delayed_until_ns",
        "fetch_offset",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "phase",
        "topic_id",
    )

    def __init__(
        self,
        topic_id: bytes,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        phase: FetchPhase,
        lag: int | None = None,
        delayed_until_ns: int = 0,
    ) -> None:
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.phase = phase
        self.lag = lag
        self.delayed_until_ns = delayed_until_ns

    @classmethod
    def begin(cls, topic_id: bytes, leader_epoch: int, log: FollowerLogPosition) -> FollowedState:
        """Return the first state under a leader. A log without epochs trusts nothing above its high watermark."""
        if log.latest_epoch == NO_EPOCH:
            return cls(topic_id, leader_epoch, log.high_watermark, NO_EPOCH, _TRUNCATING)
        return cls(topic_id, leader_epoch, log.end_offset, log.latest_epoch, _FETCHING)

    def is_ready(self, now_ns: int) -> bool:
        """Return whether the partition may be fetched now."""
        return self.phase is _FETCHING and now_ns >= self.delayed_until_ns

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica has all that the leader shows. Kafka: isReplicaInSync."""
        return self.lag is not None and self.lag <= 0

    def at(self, log: FollowerLogPosition, lag: int | None = None) -> FollowedState:
        """Return the state that continues at the end of the log, without a delay."""
        return FollowedState(
            self.topic_id,
            self.leader_epoch,
            log.end_offset,
            log.latest_epoch,
            _FETCHING,
            self.lag if lag is None else lag,
        )

    def delayed_until(self, until_ns: int) -> FollowedState:
        """Return the state that is left out before a monotonic time."""
        return FollowedState(
            self.topic_id,
            self.leader_epoch,
            self.fetch_offset,
            self.last_fetched_epoch,
            self.phase,
            self.lag,
            until_ns,
        )


def truncation_offset(diverging: EpochEntry, own: EpochEntry | None, log_end_offset: int) -> int:
    """Return where to cut the log.

    diverging: the largest epoch of the leader not above the follower's last one, and where it ends (`start_offset`).
    own: the same question asked of the follower's log about that epoch; None when it knows no epochs that old.
    Where the follower lacks the leader's epoch the cut is at the end of an older one, and the next fetch asks again.
    """
    if own is None or diverging.epoch == NO_EPOCH:
        return min(diverging.start_offset, log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.start_offset, log_end_offset)
    return min(own.start_offset, diverging.start_offset, log_end_offset)
