"""The loading of a coordinator's state when this broker begins to lead a partition, and the unloading when it ends.

Partitions of the coordinator's topic are loaded one at a time, on a thread of its own that ends when nothing is left to
load. The thread works in slices, and pauses between them while there is other work (`LoadingPace`): a broker that
starts with very much to load serves all other requests meanwhile, and requests for what is not loaded yet are answered
COORDINATOR_LOAD_IN_PROGRESS. No lock is held during a slice. `LeadershipListeners` calls `leadership_changed` on a
handler's thread; `load` and `unload` may be called on any. `_lock` guards the queue and the flag that says whether the
thread runs; all else belongs to the thread.
Kafka: GroupMetadataManager (scheduleLoadGroupAndOffsets, doLoadGroupsAndOffsets), TransactionStateManager
(loadTransactionsForTxnTopicPartition, loadTransactionMetadata).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.records.errors import CorruptRecord
from barnabas.records.file_records import FileRecords
from barnabas.replica.leadership_orders import LeadershipChange
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

NANOSECONDS_PER_SECOND: Final = 1_000_000_000

# -- the times of loadings, for metrics

_RECENT_NS: Final = 30_000 * NANOSECONDS_PER_MILLISECOND
"""The time for which a loading counts after its end."""


class LoadTimes(NamedTuple):
    """The time that one partition took to load (Kafka: partition-load-time). ended_ns: monotonic time."""

    partition: int
    milliseconds: int
    record_count: int
    ended_ns: int


class RecentLoads(NamedTuple):
    """The loadings of the last half minute; 0 when there was none."""

    longest_ms: int
    mean_ms: float


def recent_loads(load_times: deque[LoadTimes], now_ns: int) -> RecentLoads:
    """Return what the partitions that were loaded lately took. The loading thread may append meanwhile."""
    since_ns = now_ns - _RECENT_NS
    lately = [each.milliseconds for each in load_times.copy() if each.ended_ns >= since_ns]
    return RecentLoads(max(lately, default=0), sum(lately) / len(lately) if lately else 0)


# -- the pace

SLICE_NS: Final = 1_000_000
"""CPU time of a slice: about as much as a request may take."""
PAUSE_FACTOR: Final = 5.5
"""The time from one slice to the next, in multiples of the CPU time that the slice used."""
BUSY_SHARE: Final = 0.05
"""The share of a core above which the CPU time of other threads counts as other work."""
MEASURING_NS: Final = 20_000_000
"""The time over which other work is measured."""
QUIET_NS: Final = 60_000_000
"""The time without other work after which the pauses end."""
CREDIT_NS: Final = 20_000_000
"""The most that is made good of pauses that took too long."""


class CpuReadings(NamedTuple):
    """The time, the CPU time of the loading thread, and that of the process."""

    now_ns: int
    own_ns: int
    process_ns: int


class LoadingPace:
    """The pauses of one loading, between slices, while this process has other work. Pure: the caller reads the clocks.

    Beside other work loading gets less than a fifth of a core, because its slices delay other threads a little, too:
    the next slice begins when five and a half times the CPU time of the last one has passed. A pause that took longer
    than planned is made good, up to a few slices. Without other work loading goes on without pauses: a process that
    starts with a million offsets to load is better off with them. Other work shows in the CPU time that the process
    uses beside the loading, over a window of a few slices, so that a housekeeping thread that wakes up is no reason to
    pause. The pauses end when the process has been quiet for a while.

    An example with other work: a slice begins at 100.0 ms and uses 1.2 ms, so the next one may begin at 106.6 ms. The
    thread wakes up at 109.0 ms only, and uses 1.0 ms. The slice after that begins at 106.6 + 5.5 = 112.1 ms, not at
    114.5.

    begin: the readings when loading begins.
    """

    def __init__(self, begin: CpuReadings) -> None:
        self._window = begin
        self._quiet_since_ns: int | None = begin.now_ns - QUIET_NS
        self._is_busy = False
        self._paid_until_ns = begin.now_ns
        self._own_ns = begin.own_ns

    @property
    def is_busy(self) -> bool:
        """Whether the process has other work."""
        return self._is_busy

    def pause_ns(self, readings: CpuReadings) -> int:
        """Return how long to pause after a slice."""
        self._measure_load(readings)
        now_ns, own_ns, _ = readings
        used_ns = own_ns - self._own_ns
        self._own_ns = own_ns
        if not self._is_busy:
            self._paid_until_ns = now_ns
            return 0
        # Each slice is paid for by time, counted from when the last one was paid for: time before that is no credit.
        self._paid_until_ns = max(self._paid_until_ns, now_ns - used_ns - CREDIT_NS) + int(PAUSE_FACTOR * used_ns)
        return max(self._paid_until_ns - now_ns, 0)

    def _measure_load(self, readings: CpuReadings) -> None:
        """Compare the process's CPU time with the loading thread's, once in a window."""
        now_ns, own_ns, process_ns = readings
        began_ns, own_before_ns, process_before_ns = self._window
        wall_ns = now_ns - began_ns
        if wall_ns < MEASURING_NS:
            return
        self._window = readings
        others_ns = (process_ns - process_before_ns) - (own_ns - own_before_ns)
        if others_ns > BUSY_SHARE * wall_ns:
            self._quiet_since_ns = None
            self._is_busy = True
            return
        if self._quiet_since_ns is None:
            self._quiet_since_ns = began_ns
        self._is_busy = now_ns - self._quiet_since_ns < QUIET_NS


# -- the reading

READ_BYTES: Final = 512 * 1024
"""The most bytes of one read: more would make slices longer. (The load buffer's setting may say less.)"""


def read_in_steps(
    log: UnifiedLog, most_bytes: int, is_wanted: Callable[[], bool], replay: Callable[[bytes], Iterator[int]]
) -> Iterator[None]:
    """Give `replay` each piece of the log, up to its present end, while `is_wanted`; yield between steps.

    `replay` yields the offset behind what it has taken in, -1 before there is one. Raises CorruptRecord when a piece
    makes no progress.
    """
    size = min(READ_BYTES, most_bytes)
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end and is_wanted():
        data = log.read(offset, size, FetchIsolation.LOG_END)
        records = data.records
        try:
            buffer = records.read() if isinstance(records, FileRecords) else records
        finally:
            data.release()
        if not buffer:
            return
        yield
        before = offset
        for reached in replay(buffer):
            if reached >= 0:
                offset = reached
            yield
        # Without this check a log that cannot be read would be read for ever.
        if offset <= before:
            raise CorruptRecord(f"no readable batch at offset {offset}")


# -- the loader


def start_thread(name: str) -> Callable[[Callable[[], None]], None]:
    """Return a function that runs another one on a daemon thread of this name."""

    def start(run: Callable[[], None]) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()

    return start


def _readings() -> CpuReadings:
    return CpuReadings(time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns())


class PartitionLoading(Protocol):
    """The loading of single partitions. `record_count`: the records of all partitions that were loaded."""

    record_count: int

    def load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        """Load one partition, a step between two results."""

    def drop(self, partition: int) -> int:
        """Drop what was loaded of a partition. Returns how many ids that concerned."""


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
        """Stop loading."""
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
