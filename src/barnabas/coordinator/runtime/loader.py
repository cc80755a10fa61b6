"""The loading of a coordinator's state when this broker begins to lead a partition, and the unloading when it ends.

Partitions of the coordinator's topic are loaded one at a time, on a thread of its own that ends when nothing is left to
load. The thread works in slices, and pauses between them while there is other work (`runtime.pace`): a broker that
starts with very much to load serves all other requests meanwhile, and requests for what is not loaded yet are answered
COORDINATOR_LOAD_IN_PROGRESS. No lock is held during a slice. `LeadershipListeners` calls `leadership_changed` on a
handler's thread; `load` and `unload` may be called on any. `_lock` guards the queue and the flag that says whether the
thread runs; all else belongs to the thread.

Kafka: GroupMetadataManager.scheduleLoadGroupAndOffsets, TransactionStateManager.loadTransactionsForTxnTopicPartition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from barnabas.coordinator.runtime.pace import SLICE_NS, CpuReadings, LoadingPace
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.replica.leadership_changes import LeadershipChange

logger = logging.getLogger(__name__)

NANOSECONDS_PER_SECOND: Final = 1_000_000_000


class PartitionLoading(Protocol):
    """The loading of single partitions. `record_count`: the records of all partitions that were loaded."""

    record_count: int

    def load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        """Load one partition, a step between two results."""

    def drop(self, partition: int) -> int:
        """Drop what was loaded of a partition. Returns how many ids that concerned."""


def start_thread(name: str) -> Callable[[Callable[[], None]], None]:
    """Return a function that runs another one on a daemon thread of this name."""

    def start(run: Callable[[], None]) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()

    return start


def _readings() -> CpuReadings:
    return CpuReadings(time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns())


class CoordinatorLoader:
    """The queue of partitions to load, and the thread that loads them.

    on_loaded: called with the number of records when all is loaded. start: runs the loading on a thread.
    """

    def __init__(
        self,
        partitions: CoordinatorPartitions,
        loader: PartitionLoading,
        on_loaded: Callable[[int], None] = lambda _: None,
        start: Callable[[Callable[[], None]], None] | None = None,
        readings: Callable[[], CpuReadings] = _readings,
    ) -> None:
        self._partitions = partitions
        self._loader = loader
        self._on_loaded = on_loaded
        self._start = start or start_thread(f"{partitions.topic.strip('_')}-loader")
        self._readings = readings
        self._lock = threading.Lock()
        self._queue: deque[tuple[int, int]] = deque()
        """Partition and leader epoch."""
        self._is_running = False
        self._stopped = threading.Event()
        self._work: Iterator[None] = iter(())

    def load(self, partition: int, leader_epoch: int) -> None:
        """Begin to load the partition, unless there was a newer order."""
        if not self._partitions.begin_loading(partition, leader_epoch):
            logger.info(
                "Not loading %s-%d: epoch %d is not the newest", self._partitions.topic, partition, leader_epoch
            )
            return
        # There may be state of an earlier leadership whose end was never announced.
        self._loader.drop(partition)
        # The thread ends under this lock as well, with an empty queue (`_next_partition`): no partition is left in the
        # queue of a thread that is about to end.
        with self._lock:
            self._queue.append((partition, leader_epoch))
            if self._is_running or self._stopped.is_set():
                return
            self._is_running = True
        self._start(self._run)

    def unload(self, partition: int, leader_epoch: int | None) -> None:
        """Give the partition up, unless there was a newer order. The caller holds no lock."""
        if self._partitions.resign(partition, leader_epoch):
            count = self._loader.drop(partition)
            logger.info("Unloaded %d ids of %s-%d", count, self._partitions.topic, partition)

    def leadership_changed(self, changes: Iterable[LeadershipChange]) -> None:
        """Load the partitions of the topic that this broker leads now, and unload those that it lost."""
        for (topic, partition), is_leader, leader_epoch in changes:
            if topic != self._partitions.topic:
                continue
            if is_leader and leader_epoch is not None:
                self.load(partition, leader_epoch)
            else:
                self.unload(partition, leader_epoch)

    def shutdown(self) -> None:
        """Load nothing any more."""
        with self._lock:
            self._stopped.set()
            self._queue.clear()

    # -- the thread

    def _run(self) -> None:
        """Load, in slices, until nothing is left."""
        readings = self._readings
        pace = LoadingPace(readings())
        loaded_before = self._loader.record_count
        # A slice is measured in CPU time of this thread, so that waiting for the global lock does not shorten it.
        while not self._stopped.is_set():
            started_ns = readings().own_ns
            while readings().own_ns - started_ns < SLICE_NS:
                try:
                    next(self._work)
                except StopIteration:
                    if not self._next_partition():
                        self._on_loaded(self._loader.record_count - loaded_before)
                        return
                except Exception:
                    # A partition whose loading fails must not end the thread: nobody would load the others.
                    logger.exception("Loading a partition of %s failed", self._partitions.topic)
                    self._work = iter(())
            pause_ns = pace.pause_ns(readings())
            if pause_ns and self._stopped.wait(pause_ns / NANOSECONDS_PER_SECOND):
                return

    def _next_partition(self) -> bool:
        with self._lock:
            if not self._queue or self._stopped.is_set():
                self._is_running = False
                self._work = iter(())
                return False
            partition, leader_epoch = self._queue.popleft()
        self._work = self._loader.load(partition, leader_epoch)
        return True
