"""Moves of replicas between log directories: what AlterReplicaLogDirs asks for, and the threads that carry it out.

A part of ReplicaManager, which imports and makes it for the first move. `alter` and `resume` run under the
replica-state-change lock, on handler threads. The threads `ReplicaAlterLogDirsThread-<n>`
(`num.replica.alter.log.dirs.threads`) begin with the first move; each moves one partition after the other, since a move
that is done frees its old directory. `_changed` guards the partitions that wait for a thread, and the list of threads;
no other lock is taken under it. A thread holds no lock while it copies, and at the end of a move those that
`FutureLogs.complete` takes.

Kafka: ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsManager, ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.quota.replication_quota import ReplicationQuota
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition import Partition
from barnabas.runtime.thread import ShutdownableThread
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

COPY_BYTES: Final = 1 << 20
"""The bytes that are copied before the throttle, and a stop, are looked at again."""
THROTTLED_PAUSE_SECONDS: Final = 0.1
FAILED_PAUSE_SECONDS: Final = 1.0
"""The pause of a move whose disk has failed or is full: the failure is handled meanwhile, or there is room again."""


class LogDirMoves:
    """The partitions whose logs are moving, and the threads that move them.

    quota: counts what is copied, and limits it (`replica.alter.log.dirs.io.max.bytes.per.second`). on_moved: called on
    a mover's thread after each move, without locks.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        log_manager: LogManager,
        quota: ReplicationQuota,
        thread_limit: int,
        on_moved: Callable[[], None],
    ) -> None:
        self._hosted = hosted
        self._log_manager = log_manager
        self._quota = quota
        self._thread_limit = thread_limit
        self._on_moved = on_moved
        self._changed = threading.Condition()
        self._waiting: dict[TopicPartition, Partition] = {}
        self._moving: set[TopicPartition] = set()
        """The partitions that a thread copies: a further order for one waits until that thread is done with it."""
        self._threads: list[ShutdownableThread] = []
        self._is_shut_down = False

    # -- orders

    def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Begin, redirect or give up moves: each partition's log is to lie in the directory. Return each error.

        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (a directory is offline), INVALID_TOPIC_EXCEPTION (the name is too long),
        UNKNOWN_TOPIC_OR_PARTITION; REPLICA_NOT_AVAILABLE: this broker has no such replica, and will make it there.
        """
        return {key: self._alter_one(key, log_dir) for key, log_dir in wanted.items()}

    def _alter_one(self, key: TopicPartition, log_dir: str) -> ErrorCode:
        try:
            self._begin(key, os.path.normpath(log_dir))
        except ApiError as error:
            logger.warning("Unable to alter log dirs for %s: %s", key, error)
            # The name that this API gives to it, also in Kafka.
            return ErrorCode.REPLICA_NOT_AVAILABLE if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER else error.code
        return ErrorCode.NONE

    def _begin(self, key: TopicPartition, log_dir: str) -> None:
        """Have a partition's log move into `log_dir`. Raises ApiError: as `alter`, NOT_LEADER_OR_FOLLOWER."""
        futures = self._log_manager.futures
        futures.check_directory(log_dir)
        self._hosted.offline.check(key)
        future = futures.get(key)
        if future is not None and future.parent_dir != log_dir:
            self._log_manager.give_up_move(key)
            future = None
        if self._hosted.get(key) is None:
            futures.prefer(key, log_dir)
        partition = self._hosted.partition_or_error(key.topic, key.partition)
        if partition.log.parent_dir == log_dir:
            logger.info("The log of %s is in %s already", key, log_dir)
            return
        if future is None:
            self._log_manager.begin_move(partition.log, log_dir)
        self._add(partition)

    def resume(self, partition: Partition) -> None:
        """Go on with the move of a partition that was opened just now, if an earlier run has begun one."""
        key = partition.topic_partition
        future = self._log_manager.futures.get(key)
        if future is None:
            return
        if future.parent_dir == partition.log.parent_dir:
            # The old directory is in use no more, and the log was made anew beside its copy.
            self._log_manager.futures.drop(key)
            return
        self._log_manager.pause_cleaning(key)
        self._add(partition)

    def _add(self, partition: Partition) -> None:
        """Have a thread move the partition; a thread that is moving it goes on, and no other one joins it."""
        with self._changed:
            if self._is_shut_down:
                return
            self._waiting[partition.topic_partition] = partition
            if len(self._threads) < self._thread_limit:
                number = len(self._threads)
                thread = ShutdownableThread(
                    f"ReplicaAlterLogDirsThread-{number}", lambda: self._move_next(self._threads[number])
                )
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def shutdown(self) -> None:
        """Stop copying. What is copied stays, and the next start goes on with it."""
        with self._changed:
            self._is_shut_down = True
            threads = list(self._threads)
            for thread in threads:
                thread.initiate_shutdown()
            self._changed.notify_all()
        for thread in threads:
            thread.await_shutdown()

    # -- gauges

    @property
    def dead_threads(self) -> int:
        """The number of threads that an error has ended. Kafka: DeadThreadCount."""
        with self._changed:
            return sum(not thread.is_alive for thread in self._threads)

    def max_lag(self) -> int:
        """Return by how many records the copy that is furthest behind lacks its log's end. Kafka: MaxLag."""
        lag = 0
        for future in self._log_manager.futures.all():
            log = self._log_manager.get_log(future.topic_partition)
            if log is not None:
                lag = max(lag, log.log_end_offset - future.log_end_offset)
        return lag

    # -- the threads

    def _move_next(self, thread: ShutdownableThread) -> None:
        """Wait for a partition, and move it."""
        with self._changed:
            self._changed.wait_for(lambda: self._next_key() is not None or self._is_shut_down)
            key = self._next_key()
            if self._is_shut_down or key is None:
                return
            partition = self._waiting.pop(key)
            self._moving.add(key)
        try:
            self._move(thread, key, partition)
        finally:
            with self._changed:
                self._moving.remove(key)
                # An order that came meanwhile may be for another directory, or the first one's thread has failed.
                self._changed.notify()

    def _next_key(self) -> TopicPartition | None:
        """Return a partition that waits and that no thread copies. Called under the lock."""
        return next((key for key in self._waiting if key not in self._moving), None)

    def _move(self, thread: ShutdownableThread, key: TopicPartition, partition: Partition) -> None:
        """Copy a log until it has moved, its move is given up, or the thread is to end."""
        while thread.is_running and (future := self._log_manager.futures.get(key)) is not None:
            if self._hosted.get(key) is not partition:
                return  # stopped or offline; its copy is resumed when the partition is opened again
            if self._quota.is_exceeded:
                thread.pause(THROTTLED_PAUSE_SECONDS)
                continue
            try:
                if self._advance(partition.log, future):
                    self._on_moved()
                    return
            except ApiError as error:
                if error.code is ErrorCode.CORRUPT_MESSAGE:
                    logger.error("The move of %s into %s has stopped: %s", key, future.parent_dir, error)  # noqa: TRY400 - the message says all
                    return
                if self._log_manager.futures.get(key) is future:
                    logger.warning("The move of %s into %s is tried again: %s", key, future.parent_dir, error)
                    thread.pause(FAILED_PAUSE_SECONDS)

    def _advance(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Copy a piece; True when the log has moved. Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE."""
        end_offset = log.log_end_offset
        self._quota.record(self._log_manager.futures.copy(log, future, COPY_BYTES))
        # The end of a moment ago: what was appended during one piece is little enough to be copied under the lock.
        return future.log_end_offset >= end_offset and self._log_manager.complete_move(log, future)
