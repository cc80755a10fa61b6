"""Loads all logs of a broker at start, and runs tasks of several log directories, several of each, at once.

LogLoading is made and run once by LogManager, which also closes its logs with `run_per_directory`. The thread that
starts or stops the broker waits for the tasks. At start they run on the threads `log-recovery-<directory>-<n>`,
`num.recovery.threads.per.data.dir` per directory. `LogLoading._lock` guards the count of loaded logs; `_Pool._lock`,
one per directory, guards the order in which tasks are handed out, and the first error.

Kafka: LogManager.loadLogs and shutdown, which make a pool of threads per directory.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.directories.deletion import LogDeletion
from barnabas.storage.directories.log_dir import LogDirectory
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.file_names import is_future_dir
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_table import LogTable

logger = logging.getLogger(__name__)

Task = Callable[[], None]
PartitionDir = tuple[TopicPartition, str]
Load = Callable[[TopicPartition, str, LogDirectory], UnifiedLog]
"""Opens the log of a partition: its own directory, and the log directory that holds it. Raises OSError."""


def run_per_directory(tasks: Mapping[str, Sequence[Task]], threads_per_dir: int, name: str) -> dict[str, BaseException]:
    """Run all tasks on up to `threads_per_dir` threads per directory, called `<name>-<directory>-<n>`.

    The first exception of a directory's tasks ends them: tasks that were not begun are left out. Return these
    exceptions by directory. Where one thread is enough, the calling thread runs the tasks.
    """
    pools = {directory: _Pool(of_directory) for directory, of_directory in tasks.items() if of_directory}
    workers = [
        (pool, f"{name}-{directory}-{number}")
        for directory, pool in pools.items()
        for number in range(min(threads_per_dir, len(tasks[directory])))
    ]
    if len(workers) == 1:
        workers[0][0].work()
    else:
        threads = [threading.Thread(target=pool.work, name=thread, daemon=True) for pool, thread in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {directory: pool.error for directory, pool in pools.items() if pool.error is not None}


class _Pool:
    """The tasks of one directory."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._rest = iter(tasks)

    def work(self) -> None:
        """Run tasks until none is left or one has failed."""
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for this one
                with self._lock:
                    self.error = self.error or error

    def _next(self) -> Task | None:
        with self._lock:
            return next(self._rest, None) if self.error is None else None


class LogLoading:
    """Loads the logs in `directories` into `table`.

    is_stray: whether the topic of the log's name is another one by now. Then `deletion` renames the directory to
    `-stray` and leaves it to the operator.
    """

    def __init__(
        self,
        directories: LogDirectories,
        table: LogTable,
        load: Load,
        clock: Clock,
        *,
        threads_per_dir: int,
        is_stray: Callable[[UnifiedLog], bool],
        deletion: LogDeletion,
    ) -> None:
        self._directories = directories
        self._table = table
        self._load = load
        self._clock = clock
        self._threads_per_dir = threads_per_dir
        self._is_stray = is_stray
        self._deletion = deletion
        self._lock = threading.Lock()
        self._loaded: dict[str, int] = {}
        self.remaining: Mapping[str, int] = {}
        """The logs that are still to be loaded, by log directory; replaced by one assignment."""

    def run(self) -> list[str]:
        """Load everything; return the directories of logs that an earlier run had deleted but not removed.

        A disk error takes the log directory offline. Raises OSError when none is left, and any unexpected error.
        """
        started_ns = self._clock.nanoseconds()
        logger.info("Loading logs from log dirs %s", ", ".join(self._directories.online_paths()))
        found, leftovers = self._survey()
        leftovers += self._resolve_duplicates(found)
        tasks = {
            path: [partial(self._load_one, path, len(of_dir), *partition_dir) for partition_dir in of_dir]
            for path, of_dir in found.items()
        }
        self.remaining = {path: len(of_dir) for path, of_dir in found.items()}
        errors = run_per_directory(tasks, self._threads_per_dir, "log-recovery")
        for path in found:
            error = errors.get(path)
            if error is None:
                self._directories[path].is_loaded = True
            # Any other error is a fault of the broker and ends the start: it must not be taken for a broken disk.
            elif isinstance(error, (OSError, MalformedCheckpoint, ApiError)):
                self._give_up(path, error)
            else:
                raise error
        self._directories.check_one_is_left()
        unclean = [path for path in found if found[path] and not self._directories[path].had_clean_shutdown]
        logger.info(
            "Loaded %d logs in %dms%s",
            sum(map(len, found.values())),
            self._milliseconds_since(started_ns),
            f" (unclean log dirs = {', '.join(unclean)})" if unclean else "",
        )
        return leftovers

    def _survey(self) -> tuple[dict[str, list[PartitionDir]], list[str]]:
        """Read marks and checkpoints of every directory; find its logs, and the remains of deleted ones."""
        found: dict[str, list[PartitionDir]] = {}
        leftovers: list[str] = []
        for directory in self._directories.online():
            path = directory.path
            try:
                directory.open()
                of_dir = directory.partition_dirs()
                leftovers += directory.deleted_dirs()
            except OSError as error:
                self._give_up(path, error)
                continue
            found[path] = of_dir
            if not of_dir:
                logger.info("No logs found to be loaded in %s", path)
            elif directory.had_clean_shutdown:
                logger.info("Skipping recovery of %d logs from %s: clean shutdown file was found", len(of_dir), path)
            else:
                logger.info("Recovering %d logs from %s: no clean shutdown file was found", len(of_dir), path)
        return found, leftovers

    def _resolve_duplicates(self, found: dict[str, list[PartitionDir]]) -> list[str]:
        """Leave one current and one future log of each partition in `found`; return directories to be removed.

        Of two directories of a partition, one may say that its log has moved there from the other one: the broker was
        killed at the end of that move. Otherwise the log directory of the second one is given up.
        """
        removed: list[str] = []
        # By partition, and whether the log is a future one: a partition may have one of each.
        known: dict[tuple[TopicPartition, bool], str] = {}
        for log_dir in list(found):
            try:
                for topic_partition, path in list(found[log_dir]):
                    key = (topic_partition, is_future_dir(path))
                    present = known.setdefault(key, path)
                    if present == path:
                        continue
                    old = self._old_one(topic_partition, present, path)
                    known[key] = path if old == present else present
                    found[os.path.dirname(old)].remove((topic_partition, old))
                    removed.append(self._deletion.discard(topic_partition, old))
            except OSError as error:
                self._give_up(log_dir, error)
                del found[log_dir]
        return removed

    def _old_one(self, topic_partition: TopicPartition, present: str, other: str) -> str:
        """Return which of two directories of a partition its log has left. Raises OSError when neither says so."""
        for new, old in ((present, other), (other, present)):
            if self._deletion.moved_from(new) == old:
                return old
        raise OSError(
            f"Duplicate log directories for {topic_partition} are found in both {other} and {present}. Recover broker"
            " from this failure by manually deleting one of the two directories for this partition."
        )

    def _give_up(self, log_dir: str, error: Exception) -> None:
        """Take a directory offline and drop its loaded logs. Even a full disk counts: its logs are needed now."""
        logger.error("Error while loading log dir %s", log_dir, exc_info=error)
        self._directories.give_up(log_dir)
        for log in self._table.remove_dir(log_dir):
            log.close_handlers()

    def _load_one(self, log_dir: str, total: int, topic_partition: TopicPartition, path: str) -> None:
        """Load one log, or mark it as stray. Raises what `load` raises."""
        # Runs on several threads, which share the table, with a lock of its own, and the count.
        started_ns = self._clock.nanoseconds()
        log = self._load(topic_partition, path, self._directories[log_dir])
        if self._is_stray(log):
            self._deletion.mark_stray(log)
            logger.warning("Log in %s marked stray and renamed to %s", path, log.directory)
        else:
            self._table.add(log)
        with self._lock:
            loaded = self._loaded[log_dir] = self._loaded.get(log_dir, 0) + 1
            self.remaining = {**self.remaining, log_dir: total - loaded}
        logger.info(
            "Completed load of %s with %d segments, log-start-offset %d and log-end-offset %d in %dms"
            " (%d/%d completed in %s)",
            topic_partition,
            len(log.local.segments),
            log.log_start_offset,
            log.log_end_offset,
            self._milliseconds_since(started_ns),
            loaded,
            total,
            log_dir,
        )

    def _milliseconds_since(self, started_ns: int) -> int:
        return (self._clock.nanoseconds() - started_ns) // NANOSECONDS_PER_MILLISECOND
