"""What one fetcher thread asks its leader for: the positions of the partitions that are ready, kept from turn to turn.

Owned by the fetcher thread; no lock. A state that has not changed is not looked at again (decision 0084), with two
exceptions: partitions that a delay or a throttle may hold back or release are looked at in every turn, and all
partitions every LOOK_AT_ALL_MS.

Kafka: AbstractFetcherThread.buildFetch, which looks at all partitions each time.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.fetcher.follower_logs import FollowerLogs
from barnabas.replica.fetcher.partition_fetch_state import FollowedState
from barnabas.rpc.fetch_request import FetchPosition
from barnabas.rpc.fetch_session_handler import WantedPositions
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

LOOK_AT_ALL_MS: Final = 5_000
"""How often the partitions that have not changed are looked at, too: retention may have moved the start of a log."""


class AskedPartitions:
    """The partitions of the next fetch. partition_max_bytes: the limit that the leader is told for each of them."""

    def __init__(self, logs: FollowerLogs, partition_max_bytes: int) -> None:
        self._logs = logs
        self._partition_max_bytes = partition_max_bytes
        self._unsettled: set[TopicPartition] = set()
        """The partitions to look at in every turn: not asked for, or out of sync, so that a throttle may hold them."""
        self._look_at_all_ns = 0
        self.states: dict[TopicPartition, FollowedState] = {}
        """The states by which the leader is asked, one for each of `positions`."""
        self.positions = WantedPositions()

    def to_look_at(
        self, new: AbstractSet[TopicPartition], followed: AbstractSet[TopicPartition], now_ns: int
    ) -> AbstractSet[TopicPartition]:
        """Return the partitions to look at in this turn: the new ones, and those that time may have changed."""
        if now_ns >= self._look_at_all_ns:
            self._look_at_all_ns = now_ns + LOOK_AT_ALL_MS * NANOSECONDS_PER_MILLISECOND
            return new | followed
        return new | self._unsettled

    def look_at(self, key: TopicPartition, state: FollowedState, now_ns: int) -> None:
        """Ask for the partition if it is ready, and else do not.

        Raises ApiError: its log is not here. The partition is not asked for then.
        """
        self._unsettled.add(key)
        is_in_sync = state.is_in_sync
        # A throttle must not take a replica out of the in-sync replicas.
        if not state.is_ready(now_ns) or (not is_in_sync and self._logs.holds_back(key)):
            self._do_not_ask(key)
            return
        try:
            start_offset = self._logs.start_offset(key)
        except ApiError:
            self._do_not_ask(key)
            raise
        self.states[key] = state
        self.positions.put(
            FetchPosition(
                key,
                state.fetch_offset,
                self._partition_max_bytes,
                state.leader_epoch,
                state.topic_id,
                state.last_fetched_epoch,
                start_offset,
            )
        )
        if is_in_sync:
            self._unsettled.discard(key)

    def drop(self, key: TopicPartition) -> None:
        """Forget a partition."""
        self._unsettled.discard(key)
        self._do_not_ask(key)

    def _do_not_ask(self, key: TopicPartition) -> None:
        self.states.pop(key, None)
        self.positions.drop(key)
