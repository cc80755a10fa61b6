"""Opens a log from its directory: clears what a crash left over, opens segments, has them checked and recovered.

Runs on the log manager's loading threads at start-up, one log on one thread, and on the thread that makes a new log;
nothing else touches the directory. Kafka: LogLoader.load, LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import RecordBatch
from barnabas.runtime.lock_order import LockRank, ranked_lock
from barnabas.storage.checkpoints import LeaderEpochCheckpointFile, MalformedCheckpoint
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MOVED_FROM_FILE,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    is_future_dir,
    segment_file_name,
)
from barnabas.storage.log.leader_epochs import EpochEntry, LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.log_recovery import END_OF_ALL, LoadTerms, LogRecovery
from barnabas.storage.log.topic_identity import read_partition_metadata
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.producers.rebuilt_producers import rebuild_producer_state
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.batch_scan import scan_batches

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIXES = (CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")


def load_log(
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    terms: LoadTerms,
    environment: LogEnvironment,
) -> UnifiedLog:
    """Open the log in `directory`, which exists and may be empty.

    Raises OSError, MalformedCheckpoint, and CorruptRecord or CorruptIndex where a log that was closed in order is
    damaged: its batches are not checked.
    """
    return LogLoader(LocalLog(directory, topic_partition, config, environment), terms, environment).load()


class LogLoader:
    """Loads one log, once, into `local`, which has no segments yet."""

    def __init__(self, local: LocalLog, terms: LoadTerms, environment: LogEnvironment) -> None:
        self._local = local
        self._directory = local.directory
        self._segments = local.segments
        self._terms = terms
        self._environment = environment
        self._files = environment.files
        self._epochs = LeaderEpochCache(LeaderEpochCheckpointFile(local.directory, environment.files))
        # The end of a move takes both locks, the copy's behind the log's.
        rank = LockRank.FUTURE_LOG if is_future_dir(local.directory) else LockRank.LOG
        self._producers = ProducerStateManager(
            local.topic_partition, local.directory, environment, ranked_lock(rank, reentrant=True)
        )

    def load(self) -> UnifiedLog:
        """Clear leftovers; load epochs and segments, recover, complete epochs and producers: in this order.

        Raises OSError, MalformedCheckpoint, CorruptRecord, CorruptIndex.
        """
        terms, environment = self._terms, self._environment
        if not terms.had_clean_shutdown:
            # A broker killed between a rename and its sync left the sync to this start: after a power failure, a file
            # that was taken out must not come back in the place of what is written from here on.
            self._files.sync_dir(self._directory)
        names = _clear_leftovers(self._directory, self._local.config, environment)
        if MOVED_FROM_FILE in names:
            # The other directory of this log is gone (`directories.loading`): the move is complete.
            self._files.unlink(os.path.join(self._directory, MOVED_FROM_FILE))
        # Epochs before segments: the recovery of a segment adds the epochs of its batches, and cuts those behind them.
        self._load_epochs()
        self._load_segments(names)
        self._producers.note_snapshots(names)
        LogRecovery(self._local, self._epochs, self._producers, terms, environment).run()
        # From here on the end is known. Epochs are cut to it first, then completed from the batches below the first
        # known one, and only then cut to the start: the epoch of the start offset may be one that was just found.
        end_offset = self._local.end.message_offset
        start_offset = max(terms.log_start_offset, self._segments.first.base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._fill_in_epochs(start_offset)
        self._epochs.truncate_from_start(terms.log_start_offset)
        self._rebuild_producers(start_offset, end_offset)
        if end_offset - self._local.recovery_point >= self._local.config.flush_messages:
            # What a killed broker wrote last may be in the page cache alone. The topic asks for a flush before a batch
            # is acknowledged; from here on readers see the batch, and its producer's retry is answered as a duplicate.
            self._local.flush(before=self._epochs.flush)
        topic_id = read_partition_metadata(self._files, self._directory)
        return UnifiedLog(self._local, self._epochs, start_offset, topic_id, environment, self._producers)

    def _load_epochs(self) -> None:
        try:
            self._epochs.load()
        except MalformedCheckpoint as error:
            logger.warning("%s; leader epochs will be taken from the batches", error)
            self._epochs.clear()

    def _load_segments(self, names: Sequence[str]) -> None:
        """Open every segment, in order; delete indexes that have no log file."""
        present = set(names)
        for name in names:
            base_offset = base_offset_of(name)
            if base_offset is None:
                continue
            if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                if segment_file_name(base_offset, LOG_SUFFIX) not in present:
                    path = os.path.join(self._directory, name)
                    logger.warning("Deleting index %s, which has no log file", path)
                    self._files.unlink(path)
            elif name.endswith(LOG_SUFFIX):
                opened = self._environment.segments.open(self._directory, base_offset, self._local.config)
                self._segments.add(opened)

    def _rebuild_producers(self, start_offset: int, end_offset: int) -> None:
        """Bring producer state to the log's end; what recovery has gathered up to there is kept, except idle ones."""
        producers = self._producers
        producers.remove_stray_snapshots(tuple(segment.base_offset for segment in self._segments))
        if producers.delete_snapshots_above(end_offset):
            # New snapshots may come at the same offsets: a crash must not put an old one in their place.
            self._files.sync_dir(self._directory)
        rebuild_producer_state(
            producers,
            self._segments,
            start_offset,
            end_offset,
            after_clean_shutdown=self._terms.had_clean_shutdown,
        )
        producers.remove_expired(self._environment.clock.milliseconds())

    def _fill_in_epochs(self, start_offset: int) -> None:
        """Take the epochs of batches before the first known one from the batches themselves.

        Epochs are missing there when their file was unreadable, or when a crash undid the deletion of segments but not
        that of their epochs.
        """
        first = self._epochs.earliest_entry
        end = first.start_offset if first is not None else END_OF_ALL
        if start_offset >= end or self._segments.size == 0:
            return
        found: list[EpochEntry] = []
        for segment in self._segments.values(start_offset, end):
            try:
                for batch in scan_batches(segment.file, 0, segment.size):
                    if not isinstance(batch, RecordBatch) or batch.base_offset >= end:
                        # Message sets have no epochs, and a segment that begins with one is full of them.
                        break
                    found.append(EpochEntry(batch.partition_leader_epoch, batch.base_offset))
            except CorruptRecord as error:
                # Before the recovery point nothing is cut: readers of that batch get an error, all others are served.
                logger.warning("Leader epochs of damaged segment %s are incomplete: %s", segment.file.path, error)
        self._epochs.fill_in_front(entry for entry in found if entry.epoch >= 0)


def _clear_leftovers(directory: str, config: LogConfig, environment: LogEnvironment) -> list[str]:
    """Finish or undo a deletion, cleaning or swap that was interrupted; return the names of the files that are left.

    Called before anything else in the directory is opened. Raises OSError.
    """
    names = _remove_temporary_files(directory, environment)
    if any(name.endswith(SWAP_SUFFIX) for name in names):
        return _complete_swaps(directory, names, config, environment)
    return names


def _remove_temporary_files(directory: str, environment: LogEnvironment) -> list[str]:
    """Drop what was being written, or deleted, when the broker stopped; return the names of what is left.

    A swap file at or above the oldest unfinished one belongs to a replacement that was not complete (KAFKA-6264).
    """
    files = environment.files
    names = files.list_dir(directory)
    kept: list[str] = []
    unfinished = [base_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    oldest = min((offset for offset in unfinished if offset is not None), default=None)
    for name in names:
        offset = base_offset_of(name)
        incomplete = oldest is not None and offset is not None and offset >= oldest
        if name.endswith(TEMPORARY_SUFFIXES) or (name.endswith(SWAP_SUFFIX) and incomplete):
            path = os.path.join(directory, name)
            logger.info("Deleting left-over file %s", path)
            files.unlink(path)
        else:
            kept.append(name)
    return kept


def _complete_swaps(directory: str, names: Sequence[str], config: LogConfig, environment: LogEnvironment) -> list[str]:
    """Put segments that the cleaner had finished into the place of those they were made from.

    The old segments are those that begin within the new one's offsets; they go first, so that doing this again after
    another crash has the same result. Indexes that are missing are rebuilt when the segment is loaded.
    """
    files = environment.files
    for name in names:
        base_offset = base_offset_of(name)
        if base_offset is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        end_offset = _end_of_swap(directory, base_offset, config, environment)
        logger.info("Completing interrupted swap of segment %d in %s", base_offset, directory)
        for old in names:
            offset = base_offset_of(old)
            if offset is not None and base_offset <= offset < end_offset and old.endswith(SEGMENT_SUFFIXES):
                files.unlink(os.path.join(directory, old))
        # The log file last: as long as it is called `.swap`, the next start comes here again. An index that is missing
        # is rebuilt, but a missing transaction index would look like a segment without aborted transactions.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX):
            final = os.path.join(directory, segment_file_name(base_offset, suffix))
            if files.exists(final + SWAP_SUFFIX):
                files.replace(final + SWAP_SUFFIX, final)
        files.sync_dir(directory)
    for name in files.list_dir(directory):
        if name.endswith(SWAP_SUFFIX):
            files.unlink(os.path.join(directory, name))
    return files.list_dir(directory)


def _end_of_swap(directory: str, base_offset: int, config: LogConfig, environment: LogEnvironment) -> int:
    """Return the offset behind the last batch of a finished segment. Raises OSError, CorruptRecord."""
    # The names do not tell which old segments it was made from; its last offset does. Its indexes may be missing, so
    # the batches are read.
    swapped = environment.segments.open(directory, base_offset, config, SWAP_SUFFIX)
    end_offset = base_offset + 1
    for batch in scan_batches(swapped.file, 0, swapped.size):
        end_offset = batch.last_offset + 1
    swapped.close_handlers()
    return end_offset
