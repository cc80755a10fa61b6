"""Opens a log from its directory: finishes or undoes what a crash interrupted, checks indexes, recovers the tail.

Runs at start-up on the log manager's loading threads, one log on one thread; nothing else touches the directory.
Kafka: LogLoader.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.checkpoints import LeaderEpochCheckpointFile, MalformedCheckpoint
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_file_name,
)
from barnabas.storage.log.leader_epochs import LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.partition_metadata import read_partition_metadata
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.rebuild import load_batch, rebuild_producer_state, take_optional_snapshot
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.batch_scan import scan_batches
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.log_segment import Batch, LogSegment
from barnabas.storage.segment.log_segments import LogSegments

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIXES = (CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """What checkpoints say about a log, and whether its directory was left in order."""

    had_clean_shutdown: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


def load_log(
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    terms: LoadTerms,
    environment: LogEnvironment,
) -> UnifiedLog:
    """Open the log in `directory`, which exists and may be empty. Raises OSError, MalformedCheckpoint."""
    return LogLoader(directory, topic_partition, config, terms, environment).load()


class LogLoader:
    """Loads one log, once."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        terms: LoadTerms,
        environment: LogEnvironment,
    ) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._terms = terms
        self._environment = environment
        self._files = environment.files
        self._segments = LogSegments()
        self._epochs = LeaderEpochCache(LeaderEpochCheckpointFile(directory, environment.files))
        self._producers = ProducerStateManager(topic_partition, directory, environment.files)

    def load(self) -> UnifiedLog:
        """Temporary files, interrupted swaps, segments, recovery, epochs, producers: in this order."""
        if not self._terms.had_clean_shutdown:
            # A broker killed between a rename and its sync left that to us: what it took out must not come back, after
            # a power failure, in the place of what is written from here on.
            self._files.sync_dir(self._directory)
        names = self._remove_temporary_files(self._files.list_dir(self._directory))
        if any(name.endswith(SWAP_SUFFIX) for name in names):
            names = self._complete_swaps(names)
        self._load_epochs()
        self._load_segments(names)
        self._producers.note_snapshots(names)
        self._check_indexes()
        recovery_point, end_offset = self._recover()
        active = self._segments.active
        start_offset = max(self._terms.log_start_offset, self._segments.first.base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._fill_in_epochs(start_offset)
        self._epochs.truncate_from_start(self._terms.log_start_offset)
        self._rebuild_producers(start_offset, end_offset)
        local = LocalLog(
            self._directory,
            self._topic_partition,
            self._config,
            self._segments,
            LogOffsetMetadata(end_offset, active.base_offset, active.size),
            recovery_point,
            self._environment,
        )
        topic_id = read_partition_metadata(self._files, self._directory)
        return UnifiedLog(local, self._epochs, start_offset, topic_id, self._environment, self._producers)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _remove_temporary_files(self, names: Sequence[str]) -> list[str]:
        """Drop what was being written, or deleted, when the broker stopped; returns the names of what is left.

        A swap file at or above the oldest unfinished one belongs to a replacement that was not complete (KAFKA-6264).
        """
        kept: list[str] = []
        unfinished = [base_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
        oldest = min((offset for offset in unfinished if offset is not None), default=None)
        for name in names:
            offset = base_offset_of(name)
            incomplete = oldest is not None and offset is not None and offset >= oldest
            if name.endswith(TEMPORARY_SUFFIXES) or (name.endswith(SWAP_SUFFIX) and incomplete):
                logger.info("Deleting left-over file %s", self._path(name))
                self._files.unlink(self._path(name))
            else:
                kept.append(name)
        return kept

    def _complete_swaps(self, names: Sequence[str]) -> list[str]:
        """Put segments that the cleaner had finished into the place of those they were made from.

        The old segments are those that begin within the new one's offsets; they go first, so that doing this again
        after another crash has the same result. Indexes that are missing are rebuilt when the segment is loaded.
        Returns the names of what is there afterwards.
        """
        for name in names:
            base_offset = base_offset_of(name)
            if base_offset is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                continue
            swapped = self._environment.segments.open(self._directory, base_offset, self._config, SWAP_SUFFIX)
            end_offset = base_offset + 1
            for batch in scan_batches(swapped.file, 0, swapped.size):
                end_offset = batch.last_offset + 1
            swapped.close_handlers()
            logger.info("Completing interrupted swap of segment %d in %s", base_offset, self._directory)
            for old in names:
                offset = base_offset_of(old)
                if offset is not None and base_offset <= offset < end_offset and old.endswith(SEGMENT_SUFFIXES):
                    self._files.unlink(self._path(old))
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX):
                final = self._path(segment_file_name(base_offset, suffix))
                if self._files.exists(final + SWAP_SUFFIX):
                    self._files.replace(final + SWAP_SUFFIX, final)
            self._files.sync_dir(self._directory)
        for name in self._files.list_dir(self._directory):
            if name.endswith(SWAP_SUFFIX):
                self._files.unlink(self._path(name))
        return self._files.list_dir(self._directory)

    def _load_epochs(self) -> None:
        try:
            self._epochs.load()
        except MalformedCheckpoint as error:
            logger.warning("%s; leader epochs will be taken from the batches", error)
            self._epochs.clear()

    def _load_segments(self, names: Sequence[str]) -> None:
        """Open every segment, in order."""
        present = set(names)
        for name in names:
            base_offset = base_offset_of(name)
            if base_offset is None:
                continue
            if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                if segment_file_name(base_offset, LOG_SUFFIX) not in present:
                    logger.warning("Deleting index %s, which has no log file", self._path(name))
                    self._files.unlink(self._path(name))
            elif name.endswith(LOG_SUFFIX):
                self._segments.add(self._environment.segments.open(self._directory, base_offset, self._config))

    def _check_indexes(self) -> None:
        """Recover segments whose indexes are missing or impossible, but those that are recovered anyway."""
        unflushed: tuple[LogSegment, ...] = ()
        if not self._terms.had_clean_shutdown:
            unflushed = self._unflushed()
        for segment in self._segments:
            if segment in unflushed:
                continue
            try:
                segment.sanity_check()
            except CorruptIndex as error:
                logger.warning("%s; rebuilding the indexes of segment %d", error, segment.base_offset)
                self._recover_segment(segment)
                segment.flush()  # no flush comes to a segment before the recovery point

    def _unflushed(self) -> tuple[LogSegment, ...]:
        return self._segments.values(self._terms.recovery_point, 2**63 - 1)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Recover one segment; returns the bytes cut off.

        The active segment was never compacted: what was appended since the recovery point has no gaps, unless the
        batches come from a compacted leader.
        """
        gapless_from = None
        if segment is self._segments.active and not self._config.is_compacted:
            gapless_from = self._terms.recovery_point
        producers = self._producers
        if producers.end_offset != segment.base_offset or not segment.base_offset:
            rebuild_producer_state(
                producers, self._segments, self._terms.log_start_offset, segment.base_offset, self._environment
            )

        def take_in(batch: Batch) -> None:
            self._assign_epoch_of(batch)
            aborted = load_batch(producers, batch)
            if aborted is not None:
                segment.transaction_index.append(aborted)

        stays_active = segment is self._segments.active and not self._terms.had_clean_shutdown
        cut = segment.recover(take_in, gapless_from, stays_active=stays_active)
        take_optional_snapshot(producers, producers.end_offset)
        if cut:
            logger.warning("Cut %d bytes off segment %s: no whole, valid batch", cut, segment.file.path)
        return cut

    def _assign_epoch_of(self, batch: Batch) -> None:
        if isinstance(batch, RecordBatch) and batch.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(batch.partition_leader_epoch, batch.base_offset)

    def _rebuild_producers(self, start_offset: int, end_offset: int) -> None:
        """Producer state as of the log's end. What recovery has gathered up to there is kept, but for the idle ones."""
        producers = self._producers
        producers.remove_stray_snapshots(tuple(segment.base_offset for segment in self._segments))
        if producers.delete_snapshots_above(end_offset):
            self._files.sync_dir(self._directory)  # others of the same offsets may come
        rebuild_producer_state(
            producers,
            self._segments,
            start_offset,
            end_offset,
            self._environment,
            after_clean_shutdown=self._terms.had_clean_shutdown,
        )
        producers.remove_expired(self._environment.clock.milliseconds(), self._environment.producer_id_expiration_ms())

    def _fill_in_epochs(self, start_offset: int) -> None:
        """Take the epochs of batches before the first known one from the batches themselves.

        So it is when the file was unreadable, or when a crash undid the deletion of segments but not of their epochs.
        """
        first = self._epochs.earliest_entry
        end = first.start_offset if first is not None else 2**63 - 1
        if start_offset >= end or self._segments.size == 0:
            return
        found: list[tuple[int, int]] = []
        for segment in self._segments.values(start_offset, end):
            try:
                for batch in scan_batches(segment.file, 0, segment.size):
                    if not isinstance(batch, RecordBatch) or batch.base_offset >= end:
                        break  # message sets have no epochs, and a segment that begins with one is full of them
                    found.append((batch.partition_leader_epoch, batch.base_offset))
            except CorruptRecord as error:
                # Before the recovery point nothing is cut: whoever reads there is told, and everybody else is served.
                logger.warning("Leader epochs of damaged segment %s are incomplete: %s", segment.file.path, error)
        self._epochs.fill_in_front(entry for entry in found if entry[0] >= 0)

    def _recover(self) -> tuple[int, int]:
        """Recover the segments from the recovery point on, unless the broker stopped in order.

        Returns recovery point and log end offset. The recovery point only moves forward with a flush: what was
        recovered may still be in no more than the page cache.
        """
        terms = self._terms
        if not terms.had_clean_shutdown:
            self._recover_unflushed()
        end_offset = self._segments.active.next_offset() if len(self._segments) else None
        if end_offset is not None and end_offset < terms.log_start_offset:
            logger.warning(
                "Deleting all segments of %s: they end at %d, before log start offset %d",
                self._directory,
                end_offset,
                terms.log_start_offset,
            )
            self._delete_from(-1)
            self._producers.truncate_fully_and_start_at(terms.log_start_offset)
            self._segments.clear()
            self._epochs.clear()
            end_offset = None
        if end_offset is None:
            end_offset = terms.log_start_offset
            self._segments.add(self._environment.segments.create(self._directory, end_offset, self._config))
            return min(terms.recovery_point, end_offset), end_offset
        if terms.had_clean_shutdown:
            return end_offset, end_offset
        return min(terms.recovery_point, end_offset), end_offset

    def _recover_unflushed(self) -> None:
        """Recover segment by segment; nothing behind a corruption is kept, nor behind a hole.

        A hole is what is left when the end of a segment was lost at the boundary of a batch, while a later segment
        reached the disk. Compacted logs have holes by nature. A segment that begins before the end of another one was
        deleted, which a crash has undone.
        """
        unflushed = self._unflushed()
        if unflushed:
            # Before the recovery point the file is right; behind it only the batches are.
            self._epochs.truncate_from_end(unflushed[0].base_offset)
        for number, (segment, following) in enumerate(zip_longest(unflushed, unflushed[1:])):
            logger.info(
                "Recovering unflushed segment %d. %d/%d recovered for %s.",
                segment.base_offset,
                number,
                len(unflushed),
                self._topic_partition,
            )
            cut = self._recover_segment(segment)
            if cut or (following is not None and not self._follows(segment, following)):
                self._delete_from(segment.base_offset + 1)
                return

    def _follows(self, segment: LogSegment, following: LogSegment) -> bool:
        """Whether a segment begins where the one before it ends: not before, and only in compacted logs behind."""
        end_offset = segment.next_offset()
        return end_offset == following.base_offset or (self._config.is_compacted and end_offset < following.base_offset)

    def _delete_from(self, offset: int) -> None:
        for segment in self._segments.values(offset, 2**63 - 1):
            if segment.base_offset >= offset:
                logger.warning("Deleting segment %s: it lies behind a corruption", segment.file.path)
                self._segments.remove(segment.base_offset)
                segment.delete()
        # They must not come back between the segments that the log gets from here on.
        self._files.sync_dir(self._directory)
