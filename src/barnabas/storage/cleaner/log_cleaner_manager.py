"""Which partition is cleaned next, which are being cleaned, paused or given up, and how far each has been cleaned.

One per LogCleaner. Its threads ask for work here; whoever deletes or truncates a log aborts or pauses its cleaning
here, and waits until the cleaner has let go. `_changed` guards states, uncleanable partitions and checkpoints; no
log's lock is taken inside it, and callers hold none (they may hold locks above). Kafka: LogCleanerManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.storage.cleaner.checkpoints import CleanerCheckpoints
from barnabas.storage.cleaner.choice import (
    LogToClean,
    cleanable_offsets,
    cleanable_part,
    log_to_clean,
    max_compaction_delay_ms,
)
from barnabas.storage.cleaner.states import ABORTED, CleaningEvent, CleaningState, CleaningStep, next_state
from barnabas.storage.cleaner.stats import PreCleanStats
from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.storage.cleaner.log_cleaner")


class LogCleaningAborted(Exception):
    """Somebody wants the partition: the cleaning ends, and nothing is wrong."""


class LogCleaningError(Exception):
    """The log could not be cleaned, for a reason of its own."""

    def __init__(self, log: UnifiedLog, message: str) -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True, slots=True)
class CleanerLogs:
    """How the cleaner sees the log manager's logs. on_failure: told log directory, what was done, and the error."""

    get: Callable[[TopicPartition], UnifiedLog | None]
    all: Callable[[], Iterable[UnifiedLog]]
    on_failure: Callable[[str, str, OSError], None]


class LogCleanerManager:
    """The state of all partitions. on_abort: told a partition whose cleaning shall end at once."""

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
        self._changed = threading.Condition(threading.RLock())
        self._states: dict[TopicPartition, CleaningState] = {}
        self._uncleanable: dict[str, set[TopicPartition]] = {}
        self.dirtiest_ratio = 0.0
        """Cleanable part of the dirtiest log, as of the last choice."""
        self.last_run_ms = clock.milliseconds()

    # -- choosing

    def grab_filthiest_log(self) -> tuple[LogToClean | None, PreCleanStats]:
        """The log that gains most from being cleaned, its partition in progress from now on; None when none is due.

        Raises LogCleaningError for the log whose dirtiness cannot be told.
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
        """How dirty a log is, and for how long its compaction has been due."""
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
        """The compacted logs that nobody works on, in progress from now on: for deleting their old segments."""
        with self._changed:
            logs = list(self._free_compacted_logs())
            for log in logs:
                self._apply(log.topic_partition, CleaningEvent.BEGIN)
            return logs

    def pause_not_compacted(self) -> list[UnifiedLog]:
        """The logs that are not compacted, paused until `resume`: retention works on them meanwhile.

        So a topic that becomes compacted is not cleaned while segments of it are deleted.
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
        for log in self._logs.all():
            topic_partition = log.topic_partition
            is_free = log.config.is_compacted and topic_partition not in self._states
            if is_free and topic_partition not in self._uncleanable.get(log.parent_dir, ()):
                yield log

    # -- states

    def state(self, topic_partition: TopicPartition) -> CleaningState | None:
        """Where the cleaning of the partition stands."""
        with self._changed:
            return self._states.get(topic_partition)

    def abort(self, topic_partition: TopicPartition) -> None:
        """End the cleaning of the partition, if it is under way, and wait until it has ended."""
        with self._changed:
            self.abort_and_pause(topic_partition)
            self.resume([topic_partition])

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """The same, and let it not begin again before `resume`. Pauses are counted."""
        with self._changed:
            self._changed.wait_for(lambda: self._states.get(topic_partition) != ABORTED)  # by somebody else
            if self._apply(topic_partition, CleaningEvent.PAUSE) == ABORTED:
                self._on_abort(topic_partition)
            self._changed.wait_for(lambda: self._is_paused(topic_partition))

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Undo one pause of each."""
        with self._changed:
            for topic_partition in topic_partitions:
                self._apply(topic_partition, CleaningEvent.RESUME)

    def check_aborted(self, topic_partition: TopicPartition) -> None:
        """Raise LogCleaningAborted when somebody wants the partition."""
        with self._changed:
            if self._states.get(topic_partition) == ABORTED:
                raise LogCleaningAborted(f"cleaning of {topic_partition} was aborted")

    def done_cleaning(self, log: UnifiedLog, end_offset: int) -> None:
        """The cleaning has ended, and reached `end_offset`; unless it was aborted, that is noted on disk."""
        with self._changed:
            if self._apply(log.topic_partition, CleaningEvent.DONE) is None:
                self._update_checkpoint(log.parent_dir, changed=(log.topic_partition, end_offset))

    def done_deleting(self, logs: Iterable[UnifiedLog]) -> None:
        """The logs of `grab_deletable_logs` are free again."""
        with self._changed:
            for log in logs:
                self._apply(log.topic_partition, CleaningEvent.DONE)

    def _is_paused(self, topic_partition: TopicPartition) -> bool:
        state = self._states.get(topic_partition)
        return state is not None and state.step is CleaningStep.PAUSED

    def _apply(self, topic_partition: TopicPartition, event: CleaningEvent) -> CleaningState | None:
        following = next_state(self._states.get(topic_partition), event)
        if following is None:
            self._states.pop(topic_partition, None)
        else:
            self._states[topic_partition] = following
        self._changed.notify_all()
        return following

    # -- checkpoints

    def update_checkpoints(self, log_dir: str, removed: TopicPartition | None = None) -> None:
        """Write the directory's checkpoint without a partition that is gone, and all others that have no log."""
        with self._changed:
            self._update_checkpoint(log_dir, removed=removed)

    def maybe_truncate_checkpoint(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        """The partition's log was truncated: it is not clean behind `offset`."""
        with self._changed:
            log = self._logs.get(topic_partition)
            clean = self._checkpoints.offset(log_dir, topic_partition)
            if log is not None and log.config.is_compacted and clean is not None and clean > offset:
                self._update_checkpoint(log_dir, changed=(topic_partition, offset))

    def alter_checkpoint_dir(self, topic_partition: TopicPartition, source: str, destination: str) -> None:
        """The partition's log has moved to another log directory."""
        with self._changed:
            offset = self._checkpoints.offset(source, topic_partition)
            if offset is not None:
                self._update_checkpoint(source, removed=topic_partition)
                self._update_checkpoint(destination, changed=(topic_partition, offset))
            if topic_partition in self._uncleanable.get(source, ()):
                self._uncleanable[source].discard(topic_partition)
                self._uncleanable.setdefault(destination, set()).add(topic_partition)

    def first_dirty_offset(self, log: UnifiedLog) -> int | None:
        """How far the log is known to be clean."""
        with self._changed:
            return self._checkpoints.offset(log.parent_dir, log.topic_partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """The directory has failed: nothing in it is cleaned any more."""
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
        present = [log.topic_partition for log in self._logs.all()]
        try:
            self._checkpoints.update(log_dir, changed=changed, removed=removed, present=present)
        except OSError as error:
            self._logs.on_failure(log_dir, "writing the cleaner's checkpoint", error)

    # -- uncleanable partitions

    def mark_uncleanable(self, log_dir: str, topic_partition: TopicPartition) -> None:
        """Let the partition alone until the broker is started again, or the partition is gone."""
        with self._changed:
            self._uncleanable.setdefault(log_dir, set()).add(topic_partition)
            self._changed.notify_all()

    def maintain_uncleanable(self) -> None:
        """Forget uncleanable partitions that have no log any more."""
        with self._changed:
            for log_dir, partitions in list(self._uncleanable.items()):
                partitions &= {partition for partition in partitions if self._logs.get(partition) is not None}
                if not partitions:
                    del self._uncleanable[log_dir]

    def uncleanable_partitions(self, log_dir: str) -> frozenset[TopicPartition]:
        """Those that were marked."""
        with self._changed:
            return frozenset(self._uncleanable.get(log_dir, ()))

    def uncleanable_bytes(self, log_dir: str) -> int:
        """What of the marked partitions would have been cleaned."""
        now_ms = self._clock.milliseconds()
        with self._changed:
            total = 0
            for partition in self._uncleanable.get(log_dir, ()):
                log = self._logs.get(partition)
                if log is not None:
                    offsets = cleanable_offsets(log, self._checkpoints.offset(log_dir, partition), now_ms)
                    total += cleanable_part(log, offsets.first_dirty, offsets.first_uncleanable)[1]
            return total
