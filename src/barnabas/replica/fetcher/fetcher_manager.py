"""The fetcher threads of a broker, and which of them copies which partition.

Late: ReplicaManager imports and makes it for the first order about a partition that has replicas on other brokers.
`follow_leaders` and `stop` are called by LeadershipOrders under the replica-state-change lock, `resize` and `shutdown`
on the broker's threads. `_lock` makes each of them one step; it comes before the threads' own locks, and is not held
while a thread is waited for. `_threads` is replaced by one assignment, so that gauges take no lock. `_failed` has a
lock of its own, since threads add to it while they hold theirs.

Partitions of one leader are spread over `num.replica.fetchers` threads. A thread without partitions is ended, as is one
whose leader has come back at another address.

Kafka: ReplicaFetcherManager, AbstractFetcherManager, FailedPartitions.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.replica.fetcher.follower_logs import FollowerLogs, log_position
from barnabas.replica.fetcher.leader_end_point import LeaderEndPoint
from barnabas.replica.fetcher.partition_fetch_state import FollowedState
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.replica_config import FetcherConfig
from barnabas.rpc.connection_states import Node
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)


class FollowedPartition(NamedTuple):
    """A partition to be copied from a leader, and where the copying begins."""

    topic_partition: TopicPartition
    leader: Node
    state: FollowedState


class FetcherId(NamedTuple):
    """A thread: the leader it copies from, and its number among the threads of that leader."""

    leader: Node
    number: int


class ReplicaFetcherManager:
    """The threads. new_thread: makes one that is not started. fetchers: how many there are for each leader.

    new_thread's second argument is called with a partition that the thread gives up.
    """

    def __init__(
        self,
        new_thread: Callable[[FetcherId, Callable[[TopicPartition], None]], ReplicaFetcherThread],
        fetchers: int,
    ) -> None:
        self._new_thread = new_thread
        self._fetchers = fetchers
        self._lock = threading.RLock()
        self._threads: dict[FetcherId, ReplicaFetcherThread] = {}
        self._failed_lock = threading.Lock()
        self._failed: set[TopicPartition] = set()
        self._is_shut_down = False

    # -- orders

    def follow_leaders(self, partitions: Iterable[Partition], live_leaders: Mapping[int, Node]) -> None:
        """Copy partitions from their new leaders. One whose leader is not alive waits for the next order."""
        followed = []
        for partition in partitions:
            state = partition.state
            node = None if state is None else live_leaders.get(state.leader_id)
            if state is None or node is None:
                logger.warning("%s is not copied: its leader %s is not alive", partition, state and state.leader_id)
                continue
            begin = FollowedState.begin(partition.topic_id, state.leader_epoch, log_position(partition.log))
            followed.append(FollowedPartition(partition.topic_partition, node, begin))
        self.follow(followed)

    def follow(self, followed: Iterable[FollowedPartition]) -> None:
        """Copy these partitions from their leaders; `stop` has been called for those that were copied before."""
        by_thread: dict[FetcherId, dict[TopicPartition, FollowedState]] = {}
        with self._lock:
            for key, leader, state in followed:
                # Any fixed spread will do: the number names a thread of this broker, and nothing else.
                number = hash(key) % self._fetchers
                by_thread.setdefault(FetcherId(leader, number), {})[key] = state
            for fetcher_id, states in by_thread.items():
                thread = self._thread(fetcher_id)
                if thread is not None:
                    thread.follow(states)

    def stop(self, keys: Collection[TopicPartition]) -> None:
        """Copy these partitions no more. When this returns no thread writes to them."""
        with self._lock:
            for thread in self._threads.values():
                thread.stop(keys)
        with self._failed_lock:
            self._failed.difference_update(keys)

    def end_idle_threads(self) -> None:
        """End the threads that have nothing to copy. They are not waited for: each closes what it holds."""
        with self._lock:
            idle = {each: thread for each, thread in self._threads.items() if thread.is_idle}
            if idle:
                self._threads = {each: thread for each, thread in self._threads.items() if each not in idle}
        for thread in idle.values():
            thread.initiate_shutdown()

    def resize(self, fetchers: int) -> None:
        """Use another number of threads for each leader; partitions go on where they are. Kafka: resizeThreadPool."""
        with self._lock:
            if fetchers == self._fetchers:
                return
            self._fetchers = fetchers
            moved = [
                FollowedPartition(key, fetcher_id.leader, state)
                for fetcher_id, thread in self._threads.items()
                for key, state in thread.give_up_all().items()
            ]
            self.follow(moved)
            self.end_idle_threads()

    def shutdown(self) -> None:
        """End all threads, and wait for them."""
        with self._lock:
            self._is_shut_down = True
            threads = self.threads
            self._threads = {}
        for thread in threads:
            thread.initiate_shutdown()
        for thread in threads:
            thread.await_shutdown()

    # -- gauges

    @property
    def threads(self) -> Collection[ReplicaFetcherThread]:
        """The threads of this moment."""
        return self._threads.values()

    @property
    def dead_threads(self) -> int:
        """How many threads have ended without being asked to."""
        return sum(1 for thread in self.threads if thread.is_dead)

    @property
    def failed_partitions(self) -> int:
        """How many partitions are copied no more because of an error."""
        with self._failed_lock:
            return len(self._failed)

    @property
    def max_lag(self) -> int:
        """The largest lag of all partitions, in records."""
        return max((state.lag or 0 for thread in self.threads for state in thread.states.values()), default=0)

    # -- threads

    def _thread(self, fetcher_id: FetcherId) -> ReplicaFetcherThread | None:
        """Return the thread, started if need be; None once all have been shut down. The caller has the lock."""
        if self._is_shut_down:
            return None
        thread = self._threads.get(fetcher_id)
        if thread is None:
            thread = self._new_thread(fetcher_id, self._note_failed)
            self._threads = {**self._threads, fetcher_id: thread}
            thread.start()
        return thread

    def _note_failed(self, key: TopicPartition) -> None:
        with self._failed_lock:
            self._failed.add(key)


def new_fetcher_manager(
    connect: Callable[[FetcherId], LeaderEndPoint], logs: FollowerLogs, config: FetcherConfig, clock: Clock
) -> ReplicaFetcherManager:
    """Return the manager of a broker. connect: makes the connection of a thread to its leader."""

    def new_thread(fetcher_id: FetcherId, on_failed: Callable[[TopicPartition], None]) -> ReplicaFetcherThread:
        name = f"ReplicaFetcherThread-{fetcher_id.number}-{fetcher_id.leader.id}"
        return ReplicaFetcherThread(name, connect(fetcher_id), logs, config, clock, on_failed)

    return ReplicaFetcherManager(new_thread, config.fetchers)
