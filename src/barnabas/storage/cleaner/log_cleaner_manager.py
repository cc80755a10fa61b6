"""The choice of the next log to clean, the cleaning state of each partition, and how far each log has been cleaned.

One LogCleanerManager per LogCleaner. The cleaner's threads ask for work here. A caller that deletes or truncates a log
aborts or pauses its cleaning here, and waits until the cleaner has stopped. `_changed` guards states, uncleanable
partitions and checkpoints; no log's lock is taken inside it, and callers hold none: the cleaner needs the log's lock to
finish the swap that they wait for. Callers may hold outer locks. Kafka: LogCleanerManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import CLEANER_OFFSET_FILE, MalformedCheckpoint, OffsetCheckpointFile
from barnabas.storage.cleaner.choice import (
    LogToClean,
    cleanable_offsets,
    cleanable_part,
    log_to_clean,
    max_compaction_delay_ms,
)
from barnabas.storage.cleaner.cleaning_states import ABORTED, CleaningEvent, CleaningState, CleaningStep, next_state
from barnabas.storage.cleaner.stats import PreCleanStats
from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.storage.cleaner.log_cleaner")


class LogCleaningAborted(Exception):
    """The cleaning was aborted on request; nothing is wrong with the log."""


class CleanerInterrupted(Exception):
    """The work ended without a result: it was interrupted, or the worker's process has died."""


class LogCleaningError(Exception):
    """The log could not be cleaned, for a reason that lies in the log."""

    def __init__(self, log: UnifiedLog, message: str) -> None:
        super().__init__(message)
        self.log = log


class CleanerLogs(NamedTuple):
    """The cleaner's view of the log manager's logs. on_failure: called with log directory, operation and error."""

    get: Callable[[TopicPartition], UnifiedLog | None]
    all: Callable[[], Iterable[UnifiedLog]]
    on_failure: Callable[[str, str, OSError], None]


class CleanerCheckpoints:
    """First dirty offsets by partition: the file `cleaner-offset-checkpoint` of every log directory.

    Used under the lock of LogCleanerManager. The content of the files is kept in memory after the first read: no other
    code writes them.
    """

    def __init__(self, log_dirs: Iterable[str], files: Files) -> None:
        self._checkpoints = {path: OffsetCheckpointFile(path, CLEANER_OFFSET_FILE, files) for path in log_dirs}
        self._offsets: dict[str, dict[TopicPartition, int]] = {}

    def offset(self, log_dir: str, topic_partition: TopicPartition) -> int | None:
        """Return how far the partition's log in this directory is clean; None when nothing is known."""
        return self._load(log_dir).get(topic_partition)

    def update(
        self,
        log_dir: str,
        *,
        changed: tuple[TopicPartition, int] | None = None,
        removed: TopicPartition | None = None,
        present: Iterable[TopicPartition],
    ) -> None:
        """Write the file with one offset changed or removed, and without partitions that are not `present`.

        Raises OSError.
        """
        checkpoint = self._checkpoints.get(log_dir)
        if checkpoint is None:
            return
        before = self._load(log_dir)
        there = set(present)
        offsets = {key: offset for key, offset in before.items() if key in there and key != removed}
        if changed is not None:
            offsets[changed[0]] = changed[1]
        if offsets == before:
            return
        checkpoint.write(offsets)
        self._offsets[log_dir] = offsets

    def forget_log_dir(self, log_dir: str) -> None:
        """Neither read nor write the checkpoint of a directory that has failed."""
        self._checkpoints.pop(log_dir, None)
        self._offsets.pop(log_dir, None)

    def _load(self, log_dir: str) -> dict[TopicPartition, int]:
        """Return the content of the file; an unreadable one counts as empty, so that more is cleaned than needed."""
        offsets = self._offsets.get(log_dir)
        if offsets is None:
            checkpoint = self._checkpoints.get(log_dir)
            try:
                offsets = checkpoint.read() if checkpoint is not None else {}
            except (MalformedCheckpoint, OSError) as error:
                logger.warning("Failed to access checkpoint file %s in dir %s: %s", CLEANER_OFFSET_FILE, log_dir, error)
                offsets = {}
            self._offsets[log_dir] = offsets
        return offsets


# How a caller keeps the cleaner away. It truncates the log of a partition that a cleaner thread is working on:
#
#   caller                                   cleaner thread
#   abort_and_pause: state ABORTED           copies segments
#   interrupts the thread's worker           its request fails, or `check_aborted` raises between two steps
#   waits on `_changed`                      done_cleaning: state PAUSED (1), and notifies
#   truncates, under the log's lock          takes other logs
#   resume: no state                         may choose the log again
#
# Pauses are counted because two callers may pause one partition. Retention pauses logs that are not compacted the same
# way, so that a topic which becomes compacted just then is not cleaned while its old segments are deleted.


class LogCleanerManager:
    """The cleaning states of all partitions. on_abort: called with a partition whose cleaning must end at once."""

    def __init__(
        self,
        logs: CleanerLogs,
        checkpoints: CleanerCheckpoints,
        clock: Clock,
        on_abort: Callable[[TopicPartition], None] = lambda _partition: None,
    ) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._clock = clock
        self._on_abort = on_abort
        # Re-entrant: `abort` holds it around a pause and a resume, so that no cleaning begins in between.
        self._changed = threading.Condition(threading.RLock())
        self._states: dict[TopicPartition, CleaningState] = {}
        self._uncleanable: dict[str, set[TopicPartition]] = {}
        self.dirtiest_ratio = 0.0
        """The cleanable share of the dirtiest log, as of the last choice."""
        self.last_run_ms = clock.milliseconds()

    # -- choosing

    def grab_filthiest_log(self) -> tuple[LogToClean | None, PreCleanStats]:
        """Return the log that gains most from a cleaning, and mark it as in progress; None when none is due.

        Raises LogCleaningError when the state of a log cannot be read.
        """
        with self._changed:
            now_ms = self.last_run_ms = self._clock.milliseconds()
            dirty = []
            delays = []
            for log in self._free_compacted_logs():
                candidate, delay_ms = self._look_at(log, now_ms)
                delays.append(delay_ms)
                if candidate.total_bytes > 0:
                    dirty.append(candidate)
            self.dirtiest_ratio = max((candidate.cleanable_ratio for candidate in dirty), default=0.0)
            worth = [candidate for candidate in dirty if candidate.is_worth_cleaning]
            stats = PreCleanStats(max(delays, default=0), sum(delay > 0 for delay in delays), len(worth))
            if not worth:
                return None, stats
            filthiest = max(worth, key=lambda candidate: candidate.cleanable_ratio)
            self._apply(filthiest.topic_partition, CleaningEvent.BEGIN)
            return filthiest, stats

    def _look_at(self, log: UnifiedLog, now_ms: int) -> tuple[LogToClean, int]:
        """Return how dirty a log is, and how long its compaction has been due. Raises LogCleaningError."""
        try:
            checkpoint = self._checkpoints.offset(log.parent_dir, log.topic_partition)
            offsets = cleanable_offsets(log, checkpoint, now_ms)
            if offsets.resets_checkpoint:
                self._update_checkpoint(log.parent_dir, changed=(log.topic_partition, offsets.first_dirty))
            delay_ms = max_compaction_delay_ms(log, offsets.first_dirty, now_ms)
            return log_to_clean(log, offsets, must_clean_now=delay_ms > 0), delay_ms
        except Exception as error:
            message = f"Failed to calculate log cleaning stats for partition {log.topic_partition}"
            raise LogCleaningError(log, message) from error

    def grab_deletable_logs(self) -> list[UnifiedLog]:
        """Return the compacted logs that are not being cleaned, marked as in progress, to delete their old segments."""
        with self._changed:
            logs = list(self._free_compacted_logs())
            for log in logs:
                self._apply(log.topic_partition, CleaningEvent.BEGIN)
            return logs

    def pause_not_compacted(self) -> list[UnifiedLog]:
        """Pause and return the logs that are not compacted; retention works on them until `resume`.

        A topic that becomes compacted just then is not cleaned while its segments are deleted.
        """
        with self._changed:
            logs = [
                log
                for log in self._logs.all()
                if not log.config.is_compacted and log.topic_partition not in self._states
            ]
            for log in logs:
                self._apply(log.topic_partition, CleaningEvent.PAUSE)
            return logs

    def _free_compacted_logs(self) -> Iterable[UnifiedLog]:
        """Yield the compacted logs that are neither cleaned, nor paused, nor marked as uncleanable."""
        for log in self._logs.all():
            topic_partition = log.topic_partition
            is_free = log.config.is_compacted and topic_partition not in self._states
            if is_free and topic_partition not in self._uncleanable.get(log.parent_dir, ()):
                yield log

    # -- states

    def state(self, topic_partition: TopicPartition) -> CleaningState | None:
        """Return the cleaning state of a partition."""
        with self._changed:
            return self._states.get(topic_partition)

    def abort(self, topic_partition: TopicPartition) -> None:
        """End the cleaning of a partition, if one is under way, and wait until it has ended."""
        with self._changed:
            self.abort_and_pause(topic_partition)
            self.resume([topic_partition])

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """End the cleaning of a partition, wait for the end, and let none begin before `resume`. Pauses are counted."""
        with self._changed:
            # Another caller may be waiting for the end of the same cleaning: an aborted one takes no second pause.
            self._changed.wait_for(lambda: self._states.get(topic_partition) != ABORTED)
            if self._apply(topic_partition, CleaningEvent.PAUSE) == ABORTED:
                self._on_abort(topic_partition)
            self._changed.wait_for(lambda: self._is_paused(topic_partition))

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Undo one pause of each partition. Raises IllegalCleaningEvent when one is not paused."""
        with self._changed:
            for topic_partition in topic_partitions:
                self._apply(topic_partition, CleaningEvent.RESUME)

    def check_aborted(self, topic_partition: TopicPartition) -> None:
        """Check that the cleaning may go on. Raises LogCleaningAborted when it was aborted."""
        with self._changed:
            if self._states.get(topic_partition) == ABORTED:
                raise LogCleaningAborted(f"cleaning of {topic_partition} was aborted")

    def done_cleaning(self, log: UnifiedLog, end_offset: int) -> None:
        """Note that a cleaning has ended at `end_offset`; unless it was aborted, the checkpoint is written."""
        with self._changed:
            if self._apply(log.topic_partition, CleaningEvent.DONE) is None:
                self._update_checkpoint(log.parent_dir, changed=(log.topic_partition, end_offset))

    def done_deleting(self, logs: Iterable[UnifiedLog]) -> None:
        """Note that the logs of `grab_deletable_logs` may be cleaned again."""
        with self._changed:
            for log in logs:
                self._apply(log.topic_partition, CleaningEvent.DONE)

    def _is_paused(self, topic_partition: TopicPartition) -> bool:
        state = self._states.get(topic_partition)
        return state is not None and state.step is CleaningStep.PAUSED

    def _apply(self, topic_partition: TopicPartition, event: CleaningEvent) -> CleaningState | None:
        """Move a partition to its next state, and wake all that wait. Raises IllegalCleaningEvent."""
        following = next_state(self._states.get(topic_partition), event)
        if following is None:
            self._states.pop(topic_partition, None)
        else:
            self._states[topic_partition] = following
        self._changed.notify_all()
        return following

    # -- checkpoints

    def update_checkpoints(self, log_dir: str, removed: TopicPartition | None = None) -> None:
        """Write the directory's checkpoint without `removed` and without partitions that have no log."""
        with self._changed:
            self._update_checkpoint(log_dir, removed=removed)

    def maybe_truncate_checkpoint(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        """Note that the partition's log was truncated: it is not clean behind `offset`."""
        with self._changed:
            log = self._logs.get(topic_partition)
            clean = self._checkpoints.offset(log_dir, topic_partition)
            if log is not None and log.config.is_compacted and clean is not None and clean > offset:
                self._update_checkpoint(log_dir, changed=(topic_partition, offset))

    def alter_checkpoint_dir(self, topic_partition: TopicPartition, source: str, destination: str) -> None:
        """Note that the partition's log has moved to another log directory."""
        with self._changed:
            offset = self._checkpoints.offset(source, topic_partition)
            if offset is not None:
                self._update_checkpoint(source, removed=topic_partition)
                self._update_checkpoint(destination, changed=(topic_partition, offset))
            if topic_partition in self._uncleanable.get(source, ()):
                self._uncleanable[source].discard(topic_partition)
                self._uncleanable.setdefault(destination, set()).add(topic_partition)

    def first_dirty_offset(self, log: UnifiedLog) -> int | None:
        """Return how far the log is known to be clean; None when nothing is known."""
        with self._changed:
            return self._checkpoints.offset(log.parent_dir, log.topic_partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Clean nothing more in a directory that has failed."""
        logger.warning("Stopping cleaning logs in dir %s", log_dir)
        with self._changed:
            self._checkpoints.forget_log_dir(log_dir)

    def _update_checkpoint(
        self,
        log_dir: str,
        *,
        changed: tuple[TopicPartition, int] | None = None,
        removed: TopicPartition | None = None,
    ) -> None:
        """Write a directory's checkpoint. A disk error takes the directory offline."""
        present = [log.topic_partition for log in self._logs.all()]
        try:
            self._checkpoints.update(log_dir, changed=changed, removed=removed, present=present)
        except OSError as error:
            self._logs.on_failure(log_dir, "writing the cleaner's checkpoint", error)

    # -- uncleanable partitions

    def mark_uncleanable(self, log_dir: str, topic_partition: TopicPartition) -> None:
        """Stop cleaning the partition until the broker is started again, or the partition is deleted."""
        with self._changed:
            self._uncleanable.setdefault(log_dir, set()).add(topic_partition)
            self._changed.notify_all()

    def maintain_uncleanable(self) -> None:
        """Forget uncleanable partitions whose logs are gone."""
        with self._changed:
            for log_dir, partitions in list(self._uncleanable.items()):
                partitions &= {partition for partition in partitions if self._logs.get(partition) is not None}
                if not partitions:
                    del self._uncleanable[log_dir]

    def uncleanable_partitions(self, log_dir: str) -> frozenset[TopicPartition]:
        """Return the partitions that were marked."""
        with self._changed:
            return frozenset(self._uncleanable.get(log_dir, ()))

    def uncleanable_bytes(self, log_dir: str) -> int:
        """Return the cleanable bytes of the marked partitions."""
        now_ms = self._clock.milliseconds()
        with self._changed:
            total = 0
            for partition in self._uncleanable.get(log_dir, ()):
                log = self._logs.get(partition)
                if log is not None:
                    offsets = cleanable_offsets(log, self._checkpoints.offset(log_dir, partition), now_ms)
                    total += cleanable_part(log, offsets.first_dirty, offsets.first_uncleanable)[1]
            return total
