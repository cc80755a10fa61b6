"""One thread that copies partitions from one leader to the logs of this broker.

Made and stopped by ReplicaFetcherManager. `_lock` (a ranked lock, below the replica-state-change lock and above those
of partitions; `_changed` is its condition) guards `_states` and `_new`. The thread holds it while it writes to one
partition's log, and never while it talks to the leader; `stop` takes it too. So when `stop` has returned, the thread
writes nothing to that partition any more, and an answer that is on its way for it is dropped: its state is not the one
that was asked with.

One turn: look at the states that are new (cut logs without epochs, note where to fetch from), ask the leader for all
partitions that are ready, take in the answers. States that have not changed cost a turn nothing (decision 0084). What
an answer's error leads to is a table (`REACTIONS`). A connection without an answer delays all partitions by
`replica.fetch.backoff.ms`.

Kafka: AbstractFetcherThread, ReplicaFetcherThread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Final

from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.fetcher.asked_partitions import AskedPartitions
from barnabas.replica.fetcher.follower_logs import FollowerLogs
from barnabas.replica.fetcher.leader_end_point import FetchedPartitions, LeaderEndPoint
from barnabas.replica.fetcher.partition_fetch_state import FetchPhase, FollowedState, FollowerLogPosition
from barnabas.replica.replica_config import FetcherConfig
from barnabas.rpc.peer_connection import ConnectionLost
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.runtime.thread import ShutdownableThread
from barnabas.storage.errors import OffsetsOutOfOrder, UnexpectedAppendOffset, is_shortage
from barnabas.storage.log.leader_epochs import EpochEntry

logger = logging.getLogger(__name__)


class FetchReaction(Enum):
    """What a leader's error for a partition leads to."""

    FIND_OFFSET = "ask the leader where its log begins and ends"
    RETRY = "ask again after a pause: this broker or the leader has yet to hear of a change"
    STOP_IF_SAME = "another leader leads in a later epoch: fetch no more, and wait for the controller's order"


REACTIONS: Final[Mapping[ErrorCode, FetchReaction]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: FetchReaction.FIND_OFFSET,
    ErrorCode.FENCED_LEADER_EPOCH: FetchReaction.STOP_IF_SAME,
}
"""All other errors are retried."""


WRITE_ERRORS: Final = (ApiError, ValueError, OffsetsOutOfOrder, UnexpectedAppendOffset)
"""The errors of a write to a log that are the partition's alone."""


class FetcherStats:
    """The meters of one thread, which counts them alone."""

    def __init__(self) -> None:
        self.requests = Meter()
        self.bytes = Meter()


class ReplicaFetcherThread:
    """The thread and the partitions that it copies.

    on_failed: called with a partition that is given up because of its log; the manager keeps it for the metrics.
    """

    def __init__(
        self,
        name: str,
        leader: LeaderEndPoint,
        logs: FollowerLogs,
        config: FetcherConfig,
        clock: Clock,
        on_failed: Callable[[TopicPartition], None],
    ) -> None:
        self.stats = FetcherStats()
        self._leader = leader
        self._logs = logs
        self._config = config
        self._clock = clock
        self._on_failed = on_failed
        # `with` takes the lock itself: a condition's `__enter__` and `__exit__` are calls of Python, for each answer.
        self._lock = ranked_lock(LockRank.REPLICA_FETCHER)
        self._changed = threading.Condition(self._lock)
        self._states: dict[TopicPartition, FollowedState] = {}
        self._new: set[TopicPartition] = set()
        """The partitions whose states were set or dropped since the thread looked at them last."""
        self._asked = AskedPartitions(logs, config.partition_max_bytes)
        self._runner = ShutdownableThread(name, self.turn, on_end=leader.close)

    # -- called by the manager

    @property
    def name(self) -> str:
        """The thread's name, which is also the client id in its metrics."""
        return self._runner.name

    @property
    def is_dead(self) -> bool:
        """Whether the thread has ended without being asked to."""
        return not self._runner.is_running and not self._runner.is_alive

    @property
    def states(self) -> Mapping[TopicPartition, FollowedState]:
        """A copy of the partitions' states."""
        with self._lock:
            return dict(self._states)

    @property
    def is_idle(self) -> bool:
        """Whether there is no partition to copy."""
        with self._lock:
            return not self._states

    def start(self) -> None:
        """Start the thread."""
        self._runner.start()

    def follow(self, states: Mapping[TopicPartition, FollowedState]) -> None:
        """Copy these partitions from now on; one that is copied in the same leader epoch already goes on as it is."""
        with self._lock:
            for key, state in states.items():
                known = self._states.get(key)
                if known is None or known.leader_epoch != state.leader_epoch:
                    self._set(key, state)
            self._changed.notify_all()

    def stop(self, keys: Collection[TopicPartition]) -> None:
        """Copy these partitions no more. When this returns the thread writes nothing to them."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def give_up_all(self) -> Mapping[TopicPartition, FollowedState]:
        """Copy no partition any more; return them as they are, for another thread to go on with."""
        with self._lock:
            states, self._states = self._states, {}
            self._new.update(states)
            return states

    def initiate_shutdown(self) -> None:
        """Ask the thread to end, and end the request it waits for."""
        self._runner.initiate_shutdown()
        self._leader.initiate_close()
        with self._lock:
            self._changed.notify_all()

    def await_shutdown(self) -> None:
        """Wait for the thread's end. It closes its connection itself."""
        self._runner.await_shutdown()

    # -- on the thread

    def turn(self) -> None:
        """Ask once, and take in the answers; without a partition that is ready, wait for one."""
        now_ns = self._clock.nanoseconds()
        self._look_at(self._take_changed(now_ns), now_ns)
        if not self._asked.states:
            self._await_change()
            return
        try:
            answers = self._leader.fetch(self._asked.positions)
        except (ConnectionLost, OSError) as error:
            self._connection_failed(self._asked.states, error)
            return
        self.stats.requests.count += 1
        self._take_in(answers)

    def _take_changed(self, now_ns: int) -> dict[TopicPartition, FollowedState | None]:
        """Return the states to look at; None for a partition that is copied no more."""
        with self._lock:
            keys = self._asked.to_look_at(self._new, self._states.keys(), now_ns)
            self._new.clear()
            changed: dict[TopicPartition, FollowedState | None] = {}
            for key in keys:
                changed[key] = self._states.get(key)
            return changed

    def _look_at(self, states: dict[TopicPartition, FollowedState | None], now_ns: int) -> None:
        """Cut new logs that know no epochs; ask for the partitions that are ready, and not for the others."""
        for key, looked_at in states.items():
            state = looked_at
            if state is not None and state.phase is FetchPhase.TRUNCATING:
                # Nothing above the high watermark is confirmed.
                self._change(key, state, partial(self._logs.truncate_to_high_watermark, key))
                with self._lock:
                    state = self._states.get(key)
            if state is None:
                self._asked.drop(key)
                continue
            try:
                self._asked.look_at(key, state, now_ns)
            except ApiError as error:
                # Its directory has failed since; the order to stop is on its way.
                logger.info("%s: %s is not here: %s", self.name, key, error)
                self._delay({key: state})

    def _await_change(self) -> None:
        """Pause, as no partition may be fetched now; a new state ends the pause."""
        with self._lock:
            # Under the lock: a partition that was added since the look at the states needs no pause.
            if not self._new and self._runner.is_running:
                self._changed.wait(self._config.backoff_ms / 1000)

    def _take_in(self, answers: FetchedPartitions) -> None:
        requested = self._asked.states
        moved: list[TopicPartition] = []
        to_find: list[TopicPartition] = []
        for key, data in answers.items():
            asked_with = requested.get(key)
            if asked_with is None:
                continue
            if not data.error_code:
                if self._copy(key, asked_with, data):
                    moved.append(key)
                continue
            error = error_of(data.error_code)
            reaction = REACTIONS.get(error, FetchReaction.RETRY)
            if reaction is FetchReaction.FIND_OFFSET:
                to_find.append(key)
            elif reaction is FetchReaction.STOP_IF_SAME:
                self._fenced(key, asked_with)
            else:
                logger.info("%s: %s for %s at %d", self.name, error.name, key, asked_with.fetch_offset)
                self._delay({key: asked_with})
        for key in to_find:
            self._find_offset(key, requested[key])
        self._logs.wake(moved)

    def _copy(self, key: TopicPartition, asked_with: FollowedState, data: PartitionData) -> bool:
        """Append, or cut where the logs part. Returns whether the log or its high watermark may have moved."""
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            cut = EpochEntry(diverging.epoch, diverging.end_offset)
            return self._change(key, asked_with, partial(self._logs.truncate_to_leader, key, cut))
        self.stats.bytes.count += 0 if data.records is None else len(data.records)
        with self._lock:
            if self._states.get(key) is not asked_with:
                return False
            try:
                position = self._logs.append(key, asked_with.fetch_offset, data)
            except WRITE_ERRORS as error:
                self._write_failed(key, asked_with, error)
                return False
            self._set(key, asked_with.at(position, max(0, data.high_watermark - position.end_offset)))
            return True

    def _find_offset(self, key: TopicPartition, asked_with: FollowedState) -> None:
        """Find an offset that the leader has, after an offset that it has not.

        The leader ends before this log: an unclean election has chosen a replica with less, so that this log is cut at
        the leader's end. Or the leader begins behind this log's end: all its records have expired there, and this log
        begins anew. Kafka: fetchOffsetAndTruncate.
        """
        logs, leader, epoch = self._logs, self._leader, asked_with.leader_epoch
        try:
            leader_end = leader.latest_offset(key, epoch)
            own_end = logs.position(key).end_offset
            if leader_end < own_end:
                logger.warning("%s: reset %s from %d to the leader's end %d", self.name, key, own_end, leader_end)
                self._change(key, asked_with, lambda: logs.truncate_to_end(key, leader_end))
                return
            leader_start = leader.earliest_offset(key, epoch)
        except ApiError as error:
            logger.warning("%s: no offset to continue %s from: %s", self.name, key, error)
            self._delay({key: asked_with})
            return
        except (ConnectionLost, OSError) as error:
            self._connection_failed({key: asked_with}, error)
            return
        logger.warning("%s: %s continues from the leader's start %d", self.name, key, leader_start)
        self._change(
            key, asked_with, lambda: logs.start_at(key, leader_start) if leader_start > own_end else logs.position(key)
        )

    def _fenced(self, key: TopicPartition, asked_with: FollowedState) -> None:
        with self._lock:
            if self._states.get(key) is asked_with:
                self._drop(key)
                logger.info("%s: epoch %d of %s is over", self.name, asked_with.leader_epoch, key)
                self._on_failed(key)

    def _change(
        self,
        key: TopicPartition,
        asked_with: FollowedState,
        write: Callable[[], FollowerLogPosition],
    ) -> bool:
        """Write to the log, and continue behind what was written; False when that failed or the role has changed."""
        with self._lock:
            if self._states.get(key) is not asked_with:
                return False
            try:
                position = write()
            except WRITE_ERRORS as error:
                self._write_failed(key, asked_with, error)
                return False
            self._set(key, asked_with.at(position))
            return True

    def _write_failed(self, key: TopicPartition, asked_with: FollowedState, error: Exception) -> None:
        """Retry what a new answer may mend; give up the partition when its log or disk is the cause."""
        if isinstance(error, ApiError) and error.code is ErrorCode.CORRUPT_MESSAGE:
            # Damaged on the way, or on the leader's disk: what comes next may be whole.
            logger.error("%s: found invalid messages in %s at %d: %s", self.name, key, asked_with.fetch_offset, error)
            self._set(key, self._delayed(asked_with))
            return
        if isinstance(error.__cause__, OSError) and is_shortage(error.__cause__):
            # The log goes on when there is room, and may have got the first batches of the answer.
            logger.error("%s: %s is copied again when there is room: %s", self.name, key, error)
            self._set(key, self._delayed(self._continued(key, asked_with)))
            return
        logger.error("%s: %s is not copied any more: %s", self.name, key, error)
        self._drop(key)
        self._on_failed(key)

    def _continued(self, key: TopicPartition, state: FollowedState) -> FollowedState:
        """Return the state at the log's end, which may have moved; a log that has to be cut first still has to be."""
        if state.phase is FetchPhase.TRUNCATING:
            return state
        try:
            return state.at(self._logs.position(key))
        except ApiError:
            # Its directory has failed meanwhile, as the next turn finds.
            return state

    def _connection_failed(self, requested: Mapping[TopicPartition, FollowedState], error: Exception) -> None:
        if not self._runner.is_running:
            return
        logger.warning("%s: no answer from the leader: %s", self.name, error)
        self._delay(requested)

    def _delay(self, requested: Mapping[TopicPartition, FollowedState]) -> None:
        with self._lock:
            for key, asked_with in requested.items():
                if self._states.get(key) is asked_with:
                    self._set(key, self._delayed(asked_with))

    def _delayed(self, state: FollowedState) -> FollowedState:
        backoff_ns = self._config.backoff_ms * NANOSECONDS_PER_MILLISECOND
        # From now on: a delay that has run out is set anew.
        return state.delayed_until(self._clock.nanoseconds() + backoff_ns)

    # -- the states; the caller has the lock

    def _set(self, key: TopicPartition, state: FollowedState) -> None:
        self._states[key] = state
        self._new.add(key)

    def _drop(self, key: TopicPartition) -> None:
        if self._states.pop(key, None) is not None:
            self._new.add(key)
