"""Checks the segments of a log that is being loaded, and recovers those that may be damaged.

Made and run once by `loader`, on the thread that loads the log; nothing else knows the log yet.
Kafka: LogLoader.recoverLog, recoverSegment.
"""

from __future__ import annotations

import logging
import os
from itertools import zip_longest
from typing import NamedTuple

from barnabas.records.record_batch import RecordBatch
from barnabas.storage.log.leader_epochs import LeaderEpochCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.rebuilt_producers import load_batch, rebuild_producer_state, take_optional_snapshot
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.recovered_batches import Batch

logger = logging.getLogger(__name__)

END_OF_ALL = 2**63 - 1


class LoadTerms(NamedTuple):
    """The entries of the checkpoints about a log, and whether its log directory was closed in order.

    Made by LogDirectory.
    """

    had_clean_shutdown: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


# What lies below the recovery point was flushed: of these segments only the indexes are looked at. After a crash each
# segment from the recovery point on is walked batch by batch. Worked example: segments begin at 0, 100 and 200, the
# recovery point is 120, and the crash tore the batch at 170 in two. Segment 0 is not read. Segment 100 is walked; it is
# cut at 170, and ends there. Segment 200 is deleted, although its batches are whole: with 170 to 199 gone, its offsets
# no longer follow, and a follower or a consumer would read over a hole that is in no other replica's log.


class LogRecovery:
    """Recovers the segments of `local`; epochs and producers of what it reads go into the given ones."""

    def __init__(
        self,
        local: LocalLog,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        terms: LoadTerms,
        environment: LogEnvironment,
    ) -> None:
        self._local = local
        self._segments = local.segments
        self._epochs = epochs
        self._producers = producers
        self._terms = terms
        self._environment = environment

    def run(self) -> None:
        """Check the indexes, recover what was not flushed, and set the log's end and recovery point. Raises OSError.

        The recovery point only moves forward with a flush: what was recovered may still be in no more than the page
        cache. Only a log that was closed in order is durable up to its end.
        """
        local, terms = self._local, self._terms
        self._check_indexes()
        if not terms.had_clean_shutdown:
            self._recover_unflushed()
        end_offset = self._segments.active.next_offset() if len(self._segments) else None
        if end_offset is not None and end_offset < terms.log_start_offset:
            self._delete_all(end_offset)
            end_offset = None
        is_durable = terms.had_clean_shutdown and end_offset is not None
        if end_offset is None:
            end_offset = terms.log_start_offset
            self._segments.add(self._environment.segments.create(local.directory, end_offset, local.config))
        active = self._segments.active
        local.end = LogOffsetMetadata(end_offset, active.base_offset, active.size)
        local.recovery_point = end_offset if is_durable else min(terms.recovery_point, end_offset)

    def _delete_all(self, end_offset: int) -> None:
        """Delete every segment: all batches lie below the log start offset."""
        start_offset = self._terms.log_start_offset
        logger.warning(
            "Deleting all segments of %s: they end at %d, before log start offset %d",
            self._local.directory,
            end_offset,
            start_offset,
        )
        self._delete_from(-1)
        self._producers.truncate_fully_and_start_at(start_offset)
        self._segments.clear()
        self._epochs.clear()

    def _check_indexes(self) -> None:
        """Recover segments whose indexes are missing or impossible, except those that are recovered anyway."""
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
                # No other flush comes to a segment before the recovery point.
                segment.flush()

    def _unflushed(self) -> tuple[LogSegment, ...]:
        return self._segments.values(self._terms.recovery_point, END_OF_ALL)

    def _recover_unflushed(self) -> None:
        """Recover segment by segment; keep nothing behind a corruption, nor behind a hole.

        A hole is what is left when the end of a segment was lost at the boundary of a batch, while a later segment
        reached the disk. Compacted logs have holes by nature. A segment that begins before the end of another one was
        deleted, and a crash has undone the deletion.
        """
        unflushed = self._unflushed()
        if unflushed:
            # Before the recovery point the file is right; behind it only the batches are.
            self._epochs.truncate_from_end(unflushed[0].base_offset)
        progress, log_dir = self._environment.recovery, os.path.dirname(self._local.directory)
        for number, (segment, following) in enumerate(zip_longest(unflushed, unflushed[1:])):
            progress.note(log_dir, len(unflushed) - number)
            logger.info(
                "Recovering unflushed segment %d. %d/%d recovered for %s.",
                segment.base_offset,
                number,
                len(unflushed),
                self._local.topic_partition,
            )
            cut = self._recover_segment(segment)
            if cut or (following is not None and not self._follows(segment, following)):
                self._delete_from(segment.base_offset + 1)
                break
        progress.note(log_dir, 0)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Recover one segment; return the bytes cut off.

        The active segment was never compacted: what was appended since the recovery point has no gaps, unless the
        batches come from a compacted leader.
        """
        is_active = segment is self._segments.active
        gapless_from = None
        if is_active and not self._local.config.is_compacted:
            gapless_from = self._terms.recovery_point
        producers = self._producers
        if producers.end_offset != segment.base_offset or not segment.base_offset:
            rebuild_producer_state(producers, self._segments, self._terms.log_start_offset, segment.base_offset)

        def load(batch: Batch) -> None:
            self._assign_epoch_of(batch)
            aborted = load_batch(producers, batch)
            if aborted is not None:
                segment.indexes.transactions.append(aborted)

        stays_active = is_active and not self._terms.had_clean_shutdown
        cut = segment.recover(load, gapless_from, stays_active=stays_active)
        take_optional_snapshot(producers, producers.end_offset)
        if cut:
            logger.warning("Cut %d bytes off segment %s: they are not a whole, valid batch", cut, segment.file.path)
        return cut

    def _assign_epoch_of(self, batch: Batch) -> None:
        if isinstance(batch, RecordBatch) and batch.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(batch.partition_leader_epoch, batch.base_offset)

    def _follows(self, segment: LogSegment, following: LogSegment) -> bool:
        """Return whether a segment begins where the one before it ends, or in a compacted log behind that."""
        end_offset = segment.next_offset()
        is_compacted = self._local.config.is_compacted
        return end_offset == following.base_offset or (is_compacted and end_offset < following.base_offset)

    def _delete_from(self, offset: int) -> None:
        for segment in self._segments.values(offset, END_OF_ALL):
            if segment.base_offset >= offset:
                logger.warning("Deleting segment %s: it follows a corrupt segment", segment.file.path)
                self._segments.remove(segment.base_offset)
                segment.delete()
        # A crash must not bring them back between the segments that the log gets from here on.
        self._environment.files.sync_dir(self._local.directory)
