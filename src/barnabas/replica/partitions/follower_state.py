"""The state of one follower as its leader knows it from the follower's fetches.

Made by `Partition.make_leader`. `Follower.state` is an immutable snapshot, replaced under the log's lock by `Partition`
and read by any thread. Kafka: kafka.cluster.Replica, ReplicaState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.replica.partitions.session_watches import SessionWatch
from barnabas.runtime.clock import NEVER_MS
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from mypy_extensions import i64

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
_NOWHERE: Final = LogOffsetMetadata(UNKNOWN_OFFSET)


class FollowerState:
    """The progress of a follower; never changed. Times are those of the monotonic clock, in milliseconds.

    Kafka takes the wall clock: after a step forward its followers lag, after a step back dead ones do not.

    log_end: the follower's log end offset, which is the offset it fetches from. log_start_offset: the start of its log.
    leader_end_at_last_fetch: the end of the leader's log at the follower's last fetch, at last_fetch_ms.
    last_caught_up_ms: the last time at which the follower had everything that the leader had then.
    broker_epoch: as the follower says in Fetch from version 15 on, else -1.
    """

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end",
        "log_start_offset",
    )

    def __init__(
        self,
        log_end: LogOffsetMetadata = _NOWHERE,
        log_start_offset: i64 = UNKNOWN_OFFSET,
        leader_end_at_last_fetch: i64 = 0,
        last_fetch_ms: i64 = NEVER_MS,
        last_caught_up_ms: i64 = NEVER_MS,
        broker_epoch: i64 = UNKNOWN_BROKER_EPOCH,
    ) -> None:
        self.log_end = log_end
        self.log_start_offset: i64 = log_start_offset
        self.leader_end_at_last_fetch: i64 = leader_end_at_last_fetch
        self.last_fetch_ms: i64 = last_fetch_ms
        self.last_caught_up_ms: i64 = last_caught_up_ms
        self.broker_epoch: i64 = broker_epoch

    def is_caught_up(self, leader_end_offset: i64, now_ms: i64, max_lag_ms: i64) -> bool:
        """Return whether the follower has everything, or had everything at most `max_lag_ms` ago."""
        return self.log_end.message_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms

    def after_fetch(
        self,
        fetched_from: LogOffsetMetadata,
        log_start_offset: i64,
        leader_end_offset: i64,
        broker_epoch: i64,
        now_ms: i64,
    ) -> FollowerState:
        """Return the state after a fetch.

        fetched_from: the follower has everything below. log_start_offset, broker_epoch: as the follower says, -1 where
        the version of Fetch has none. leader_end_offset: the end of the leader's log before the read.

        The follower was caught up now if it fetches from this leader's end, or at its previous fetch if it fetches from
        where the end was then. The second rule is for busy leaders, whose very end no follower ever fetches from:

            time    leader's end    follower fetches from
            1 s     10              0
            2 s     20              10: where the end was at 1 s, so it was caught up at 1 s
            3 s     30              20: caught up at 2 s
        """
        caught_up_ms = self.last_caught_up_ms
        if fetched_from.message_offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetched_from.message_offset >= self.leader_end_at_last_fetch:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        # Reads hold no lock, so that fetches may be noted in another order than they were read in.
        leader_end_offset = max(leader_end_offset, self.leader_end_at_last_fetch)
        return FollowerState(fetched_from, log_start_offset, leader_end_offset, now_ms, caught_up_ms, broker_epoch)

    def with_times(self, last_fetch_ms: i64, last_caught_up_ms: i64) -> FollowerState:
        """Return the same progress with other times."""
        return FollowerState(
            self.log_end,
            self.log_start_offset,
            self.leader_end_at_last_fetch,
            last_fetch_ms,
            last_caught_up_ms,
            self.broker_epoch,
        )

    def after_election(
        self, now_ms: i64, leader_end_offset: i64, *, is_new_leader: bool, is_in_sync: bool
    ) -> FollowerState:
        """Return the state at the beginning of a leader epoch.

        A follower in sync has `replica.lag.time.max.ms` to fetch. The high watermark must not wait for a follower out
        of sync, which therefore counts as never caught up. A new leader knows no offsets of followers.
        """
        since_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            return FollowerState(leader_end_at_last_fetch=UNKNOWN_OFFSET, last_caught_up_ms=since_ms)
        return FollowerState(
            self.log_end, self.log_start_offset, leader_end_offset, since_ms, since_ms, self.broker_epoch
        )


class LeftOut:
    """A follower that had everything in `state`: its next fetches in the session of `watch` leave it out."""

    __slots__ = ("state", "watch")

    def __init__(self, state: FollowerState, watch: SessionWatch) -> None:
        self.state = state
        self.watch = watch


class Follower:
    """One remote replica of a partition led here.

    state: as the last fetch told that named or read the partition. left_out: holds while its state is `state`; replaced
    by the thread that reads.
    """

    __slots__ = ("broker_id", "left_out", "state")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.state = FollowerState()
        self.left_out: LeftOut | None = None

    @property
    def state_by_now(self) -> FollowerState:
        """The state with the time of the last fetch that left the partition out, as if that fetch had read it."""
        state, left_out = self.state, self.left_out
        if left_out is None or left_out.state is not state:
            return state
        polled_ms = left_out.watch.polled_ms
        if polled_ms <= state.last_fetch_ms:
            return state
        return state.with_times(polled_ms, max(state.last_caught_up_ms, polled_ms))
