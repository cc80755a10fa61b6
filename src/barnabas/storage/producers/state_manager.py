"""A log's producer state and its `.snapshot` files: taken at rolls and at shutdown, deleted with the segments.

One per log, guarded by `lock`, the log's: what other parts of the broker call takes it, the rest is called by the log
under it. State that no snapshot holds is in the batches behind the newest snapshot, so a
snapshot that a crash tears or loses costs time and nothing else. But a snapshot must never say more than the log:
before a log is cut, the snapshots behind the cut are deleted, and the deletion is made durable before anything is
appended there again. Logs without idempotent producers hold no tables.

At a start and after a truncation the state is rebuilt from the newest snapshot and the headers of the batches behind
it: by `log.loader` and `log.log_recovery` on the loading thread, by `log.truncation` under the log's lock.
Kafka: ProducerStateManager, UnifiedLog.rebuildProducerState, loadProducersFromRecords.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import NO_PRODUCER_ID, NO_TIMESTAMP, RecordBatch
from barnabas.runtime.locks import ReentrantLock
from barnabas.storage.errors import is_shortage
from barnabas.storage.file_names import SNAPSHOT_SUFFIX, segment_file_name
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.entry import ActiveProducer, LastRecord, ProducerStateEntry, Verification
from barnabas.storage.producers.producer_states import CompletedTransaction, ProducerStates, is_expired
from barnabas.storage.producers.snapshot import (
    CorruptSnapshot,
    encode_snapshot,
    read_snapshot,
    snapshot_offsets,
    write_content,
    write_snapshot,
)
from barnabas.storage.segment.batch_scan import Batch, scan_batches
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.log_segments import LogSegments
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

logger = logging.getLogger(__name__)

_NONE: tuple[int, ...] = ()
MANY_PRODUCERS: Final = 200
"""Encoding this number takes about two milliseconds, which an append at a roll may take under the log's lock."""


class ProducerStateManager:
    """The producer state of one log.

    states: the producers, None as long as there are none. end_offset: the offset up to which the state reflects the
    log while that is loaded; afterwards it always reflects the log's end.
    Every method that touches files raises OSError.
    """

    __slots__ = (
        "_directory",
        "_environment",
        "_files",
        "_frozen",
        "_last_snapshot_offset",
        "_snapshots",
        "end_offset",
        "lock",
        "partition",
        "states",
    )

    def __init__(
        self, topic_partition: TopicPartition, directory: str, environment: LogEnvironment, lock: ReentrantLock
    ) -> None:
        self.lock = lock
        self.partition = topic_partition
        self.states: ProducerStates | None = None
        self.end_offset = 0
        self._directory = directory
        self._environment = environment
        self._files = environment.files
        self._snapshots = _NONE
        self._frozen: dict[int, list[ProducerStateEntry]] = {}
        """The producers of snapshots that are not written yet, by offset. They are among `_snapshots` already."""
        self._last_snapshot_offset = 0
        """The offset above which a snapshot would hold something new; there need not be a file of this offset."""

    # -- the producers

    @property
    def is_empty(self) -> bool:
        """Whether no producer is known."""
        return self.states is None or self.states.is_empty

    def make_states(self) -> ProducerStates:
        """Return the producers; make the tables when there are none yet."""
        states = self.states
        if states is None:
            states = self.states = ProducerStates(self.partition, self._environment.verifies_transactions)
        return states

    def first_unstable_offset(self, high_watermark: int) -> LogOffsetMetadata | None:
        """Return where the oldest transaction begins that is open, or whose marker is not below the high watermark."""
        states = self.states
        if states is None:
            return None
        states.remove_replicated(high_watermark)
        return states.first_unstable_offset

    @property
    def producer_id_count(self) -> int:
        """The number of producers that are remembered; any thread."""
        states = self.states
        return 0 if states is None else len(states.entries)

    # -- the producers, for any thread: these take the lock

    def oldest_open_timestamp(self) -> int:
        """Return the time of the last batch of the producer whose transaction is open for longest; -1: none is open."""
        # Most logs have no producers with transactions: their gauges take no lock.
        states = self.states
        if states is None:
            return NO_TIMESTAMP
        with self.lock:
            return states.oldest_open_timestamp

    def active(self) -> list[ActiveProducer]:
        """Return the producers whose sequence numbers or transactions are remembered, for DescribeProducers."""
        with self.lock:
            return [] if self.states is None else [entry.describe() for entry in self.states.entries.values()]

    def last_records(self) -> dict[int, LastRecord]:
        """Return each producer's newest record, by producer id.

        The cleaner keeps these records: a recovery finds the sequence numbers again by them.
        """
        with self.lock:
            entries = {} if self.states is None else self.states.entries
            return {key: LastRecord(entry.last_data_offset, entry.producer_epoch) for key, entry in entries.items()}

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_required: bool = False
    ) -> Verification | None:
        """Return the verification that a transactional batch needs before its append; None when it needs none.

        The caller asks the coordinator, and tells a confirmation to `end_verification`. is_required: also where
        verification is switched off.
        """
        with self.lock:
            return self.make_states().begin_verification(
                producer_id,
                producer_epoch,
                base_sequence,
                self._environment.clock.milliseconds(),
                is_required=is_required,
            )

    def end_verification(self, producer_id: int, producer_epoch: int, verification: Verification) -> bool:
        """Note that the coordinator has confirmed the transaction; return False when a marker has come meanwhile."""
        with self.lock:
            states = self.states
            return states is not None and states.end_verification(producer_id, producer_epoch, verification)

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        if self.states is None:
            return
        with self.lock:
            states = self.states
            if states is not None:
                states.remove_expired(now_ms, self._environment.producer_id_expiration_ms())
                if states.is_empty:
                    self.states = None

    # -- snapshots

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The offsets of the existing snapshots, rising."""
        return self._snapshots

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the snapshot of an offset."""
        return os.path.join(self._directory, segment_file_name(offset, SNAPSHOT_SUFFIX))

    def take_snapshot(self, end_offset: int, *, sync: bool) -> bool:
        """Write a snapshot of the state, which reflects the log up to `end_offset`, unless it would hold nothing new.

        True when there are producers in it. A snapshot without producers is not synced: to a start, a missing one means
        the same.
        """
        if sync:
            # The log is being closed: nothing else will write them.
            for offset, entries in list(self._frozen.items()):
                try:
                    self.write_begun(offset, entries, encode_snapshot(entries))
                except OSError as error:
                    # An old one: without it a start reads more, and the last one is worth an attempt of its own.
                    logger.warning("Snapshot %d of %s is not written: %s", offset, self.partition, error)
        self.end_offset = end_offset
        if end_offset <= self._last_snapshot_offset:
            return False
        entries = list(self.states.entries.values()) if self.states is not None else []
        path = self.snapshot_path(end_offset)
        # Written under its own name, not renamed into place: a snapshot that is torn by a crash fails its checksum.
        try:
            sync = sync and bool(entries)
            write_snapshot(self._files, path, entries, sync=sync)
            if sync:
                self._files.sync_dir(self._directory)
        except OSError:
            # A torn file fails its checksum at the next start, which would have to read it first.
            if self._files.exists(path):
                self._files.unlink(path)
            raise
        self._snapshots = tuple(sorted({*self._snapshots, end_offset}))
        self._last_snapshot_offset = end_offset
        logger.debug("Wrote producer snapshot of %s at %d with %d producers", self.partition, end_offset, len(entries))
        return bool(entries)

    def begin_snapshot(self, end_offset: int) -> bool:
        """Do what `take_snapshot` does without a sync, and leave a snapshot of many producers to `write_begun`.

        A snapshot of 60,000 producers takes half a second, and a roll comes in the middle of an append.
        """
        if self.producer_id_count <= MANY_PRODUCERS or end_offset <= self._last_snapshot_offset:
            return self.take_snapshot(end_offset, sync=False)
        self.end_offset = self._last_snapshot_offset = end_offset
        self._frozen[end_offset] = self.make_states().freeze()
        self._snapshots = tuple(sorted({*self._snapshots, end_offset}))
        return True

    def begun_offsets(self) -> list[int]:
        """Return the offsets of the snapshots that are not written yet. Needs no lock."""
        return list(self._frozen)

    def begun(self, offset: int) -> list[ProducerStateEntry] | None:
        """Return the producers of a snapshot that is not written yet, or None. Needs no lock."""
        return self._frozen.get(offset)

    def write_begun(self, offset: int, entries: list[ProducerStateEntry], content: bytes) -> None:
        """Write a snapshot that `begin_snapshot` has left: the content of `entries`, as `begun` returned them.

        Nothing is written when they have been deleted by then. Another snapshot of the same offset may have begun
        since, if the log was truncated and has rolled there again.
        """
        if self._frozen.get(offset) is not entries:
            return
        del self._frozen[offset]
        path = self.snapshot_path(offset)
        try:
            write_content(self._files, path, content, sync=False)
        except OSError:
            self._delete([offset])
            raise
        logger.debug("Wrote producer snapshot of %s at %d with %d producers", self.partition, offset, len(entries))

    def sync_snapshot(self, offset: int) -> None:
        """Return when this snapshot, if it still exists, is on stable storage."""
        try:
            file = self._files.open(self.snapshot_path(offset))
        except FileNotFoundError:
            # The segment has been deleted, and the snapshot with it.
            return
        try:
            file.sync()
        finally:
            file.close()

    def note_snapshots(self, names: Iterable[str]) -> None:
        """Take the snapshots among the names in the log's directory; later ones are made and deleted by this object."""
        self._snapshots = tuple(snapshot_offsets(names)) or _NONE

    def remove_stray_snapshots(self, base_offsets: tuple[int, ...]) -> None:
        """Delete the snapshots that belong to no segment, except the newest one behind the last segment's start.

        That one was written at a clean stop.
        """
        belonging = set(base_offsets)
        strays = [offset for offset in self._snapshots if offset not in belonging]
        if strays and base_offsets and strays[-1] >= base_offsets[-1]:
            strays.pop()
        self._delete(strays)

    def delete_snapshots_below(self, offset: int) -> None:
        """Delete the snapshots of deleted segments, below `offset`."""
        self._delete([snapshot for snapshot in self._snapshots if snapshot < offset])

    def delete_snapshots_of(self, offsets: list[int]) -> None:
        """Delete the snapshots of these offsets: their segments have become part of others."""
        self._delete(offsets)

    def delete_snapshots_above(self, offset: int) -> bool:
        """Delete the snapshots above `offset`, where the log will end; True if there were any.

        The caller makes the deletion durable before anything is appended.
        """
        deletable = [snapshot for snapshot in self._snapshots if snapshot > offset]
        self._delete(deletable)
        return bool(deletable)

    def _delete(self, offsets: list[int]) -> None:
        if not offsets:
            return
        for offset in offsets:
            self._frozen.pop(offset, None)
            path = self.snapshot_path(offset)
            if self._files.exists(path):
                self._files.unlink(path)
        self._snapshots = tuple(offset for offset in self._snapshots if offset not in offsets) or _NONE

    # -- as the log's offsets change

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget ended transactions below the new log start offset."""
        if self.states is not None:
            self.states.remove_replicated(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        self._last_snapshot_offset = self._snapshots[-1] if self._snapshots else log_start_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Load the newest snapshot between the two offsets and set `end_offset` to its offset.

        Snapshots outside of the log are deleted. A state that reflects the log end already stays as it is.
        """
        self._delete([offset for offset in self._snapshots if not log_start_offset < offset <= log_end_offset])
        if log_end_offset == self.end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        now_ms, expiration_ms = self._environment.clock.milliseconds(), self._environment.producer_id_expiration_ms()
        # From the newest on: a snapshot that cannot be read is deleted, and an older one costs only more reading.
        self.states = None
        while self._snapshots:
            offset = self._snapshots[-1]
            path = self.snapshot_path(offset)
            try:
                entries = read_snapshot(self._files, path)
            except (CorruptSnapshot, FileNotFoundError) as error:
                logger.warning("Failed to load producer snapshot from %r: %s", path, error)
                self._delete([offset])
                continue
            logger.debug("Loaded producer state of %s from snapshot %r", self.partition, path)
            kept = [entry for entry in entries if not is_expired(entry, now_ms, expiration_ms)]
            if kept:
                self.make_states().load(kept)
            self.end_offset = self._last_snapshot_offset = offset
            return
        self.end_offset = self._last_snapshot_offset = log_start_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything: the log begins again at `offset`."""
        self.states = None
        self._delete(list(self._snapshots))
        self._last_snapshot_offset = offset
        self.end_offset = offset

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed."""
        self._directory = directory

    def exchange_snapshots(self, future: ProducerStateManager) -> None:
        """Exchange snapshots with the manager of a log's copy, under the locks of both; the producers stay."""
        own = self._directory, self._snapshots, self._frozen, self._last_snapshot_offset, self.end_offset
        self._directory, self._snapshots, self._frozen = future._directory, future._snapshots, future._frozen
        self._last_snapshot_offset, self.end_offset = future._last_snapshot_offset, future.end_offset
        future._directory, future._snapshots, future._frozen, future._last_snapshot_offset, future.end_offset = own


def rebuild_producer_state(
    manager: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: int,
    end_offset: int,
    *,
    after_clean_shutdown: bool = False,
) -> None:
    """Make the state reflect the log up to `end_offset`. Raises OSError.

    A log that was closed in order and has no snapshot was written by a broker that makes none: it is not read for its
    producers. A log whose producers were all without ids is not read either.
    """
    # Worked example: segments begin at 0, 100 and 200, the log ends at 250, and the newest snapshot is that of 100. It
    # is loaded; the batches from 100 to 199 are read; a snapshot is taken at 200; the batches from 200 on are read; a
    # snapshot is taken at 250. A truncation into the last segment reads that one segment only.
    wanted = _wanted_snapshots(segments, end_offset)
    if after_clean_shutdown and not manager.snapshots:
        for offset in wanted:
            take_optional_snapshot(manager, offset)
        manager.end_offset = end_offset
        return
    had_no_state = manager.is_empty and manager.end_offset >= end_offset
    manager.truncate_and_reload(log_start_offset, end_offset)
    if end_offset > manager.end_offset and not had_no_state:
        for segment in segments.values(manager.end_offset, end_offset):
            start = max(segment.base_offset, manager.end_offset, log_start_offset)
            manager.end_offset = start
            if segment.base_offset in wanted and segment.base_offset == start:
                take_optional_snapshot(manager, start)
            _read_segment(manager, segment, start, end_offset)
    take_optional_snapshot(manager, end_offset)


def take_optional_snapshot(manager: ProducerStateManager, end_offset: int) -> None:
    """Take a snapshot that only saves the next start some reading. A full disk is logged. Raises other OSErrors."""
    try:
        manager.take_snapshot(end_offset, sync=False)
    except OSError as error:
        if not is_shortage(error):
            raise
        logger.warning("No room for a producer snapshot of %s at %d: %s", manager.partition, end_offset, error)


def _wanted_snapshots(segments: LogSegments, end_offset: int) -> list[int]:
    """Return where snapshots are due: at the last two segments and the end, for the next truncation or recovery."""
    bases = [segment.base_offset for segment in segments.all()[-2:]]
    return [offset for offset in (*bases, end_offset) if offset <= end_offset]


def _read_segment(manager: ProducerStateManager, segment: LogSegment, start: int, end_offset: int) -> None:
    """Update the state with the batches of a segment between the offsets, up to any damage. Raises OSError."""
    place = segment.translate_offset(start)
    if place is None:
        return
    try:
        for batch in scan_batches(segment.file, place.position, segment.size):
            if batch.base_offset >= end_offset:
                return
            load_batch(manager, batch)
    except CorruptRecord as error:
        logger.warning("Producer state of %s: %s, in segment %d", manager.partition, error, segment.base_offset)


def load_batch(manager: ProducerStateManager, batch: Batch) -> AbortedTransactionEntry | None:
    """Update the state with a stored batch; return the entry of the transaction that it aborts, if it does.

    A batch that contradicts the state is logged and not rejected: it was accepted once, and is in the log.
    """
    manager.end_offset = batch.last_offset + 1
    if not isinstance(batch, RecordBatch) or batch.producer_id == NO_PRODUCER_ID:
        return None
    states = manager.make_states()
    marker: EndTransactionMarker | None = None
    completed: CompletedTransaction | None = None
    try:
        marker, completed = states.check_stored(batch)
    except (ApiError, CorruptRecord) as error:
        logger.warning("Producer state of %s: %s", manager.partition, error)
    states.add_stored(batch, LogOffsetMetadata(batch.base_offset), marker)
    if completed is None:
        return None
    last_stable_offset = states.last_stable_offset(completed)
    states.complete(completed)
    if not completed.is_aborted:
        return None
    return AbortedTransactionEntry(*completed[:3], last_stable_offset)
