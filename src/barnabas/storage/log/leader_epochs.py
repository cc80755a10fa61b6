"""The offset at which each leader epoch of a log began, kept in `leader-epoch-checkpoint` (KIP-101, KIP-279).

One per log. Changed under the log's lock, read by any thread: every change replaces the immutable tuple of entries.
`flush` writes changes; the log calls it before it moves its recovery point, so that entries which a crash loses are
found again in the batches behind the recovery point. `_write_lock` orders the writes. Kafka: LeaderEpochFileCache.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.storage.checkpoints import LeaderEpochCheckpointFile

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first batch, or the log end offset at which it began."""

    epoch: int
    start_offset: int


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


# A follower whose log parts from its leader's uses the entries to find where. Worked example: the leader has the
# entries (epoch 1, from 0) and (epoch 3, from 50) and ends at 80; a follower's last batch is of epoch 2, which led from
# 50 to 60 and was never committed. Asked for the end of epoch 2, the leader answers with the largest epoch not above
# it: epoch 1 ends at 50. The follower truncates to 50 and fetches epoch 3 from there.


class LeaderEpochCache:
    """Leader epochs and their start offsets, both rising."""

    __slots__ = ("_checkpoint", "_dirty", "_entries", "_write_lock", "latest_epoch")

    def __init__(self, checkpoint: LeaderEpochCheckpointFile) -> None:
        self._checkpoint = checkpoint
        self._write_lock = threading.Lock()
        self._dirty = False
        self._entries: tuple[EpochEntry, ...] = ()
        self.latest_epoch = UNDEFINED_EPOCH
        """The newest epoch, -1 when there is none; a plain attribute, since every append compares its epoch with it."""

    def load(self) -> None:
        """Replace the entries by those of the file. Raises MalformedCheckpoint, OSError."""
        self._set(())
        for epoch, start_offset in self._checkpoint.read():
            self.assign(epoch, start_offset)
        self._dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return self._entries

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The oldest entry."""
        entries = self._entries
        return entries[0] if entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; True if the entries have changed.

        Entries of later epochs or offsets contradict the new one and are dropped: their batches were never committed.
        Raises ValueError when a number is negative.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} and start offset {start_offset} must not be negative")
        entries = self._entries
        # The usual case: another batch of the newest epoch.
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        if len(kept) < len(entries):
            logger.info("New epoch %d from offset %d replaces %s", epoch, start_offset, entries[len(kept) :])
        self._set((*kept, EpochEntry(epoch, start_offset)))
        return True

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch that the batch at `offset` was written in; None when it is not known."""
        entries = self._entries
        place = bisect_right(entries, offset, key=_start_offset)
        return entries[place - 1].epoch if place else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry | None:
        """Return the largest epoch not above `epoch` and the offset behind its last batch; None: nothing is known.

        The newest epoch ends at the log's end. An epoch older than all known ones ends where the first known begins.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return None
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        place = bisect_right(entries, epoch, key=_epoch)
        end_offset = entries[place].start_offset
        return EpochEntry(entries[place - 1].epoch if place else epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or behind `end_offset`, where the log ends now."""
        kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
        if len(kept) < len(self._entries):
            self._set(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs before `start_offset`, where the log starts now; the epoch of that offset begins there."""
        entries = self._entries
        place = bisect_right(entries, start_offset, key=_start_offset)
        if (place and entries[place - 1].start_offset < start_offset) or place > 1:
            self._set((EpochEntry(entries[place - 1].epoch, start_offset), *entries[place:]))

    def fill_in_front(self, epochs: Iterable[EpochEntry]) -> None:
        """Add the epochs of batches that lie before the first entry; `epochs` has one item per batch, in order."""
        first = self.earliest_entry
        older: list[EpochEntry] = []
        for epoch, start_offset in epochs:
            if not older or epoch > older[-1].epoch:
                older.append(EpochEntry(epoch, start_offset))
        if first is None:
            self._set(tuple(older))
        elif older:
            kept = [entry for entry in older if entry.epoch < first.epoch and entry.start_offset < first.start_offset]
            start = next((entry.start_offset for entry in older if entry.epoch == first.epoch), first.start_offset)
            self._set((*kept, EpochEntry(first.epoch, start), *self._entries[1:]))

    def clear(self) -> None:
        """Drop all entries."""
        if self._entries:
            self._set(())

    def flush(self) -> None:
        """Write the file if there are changes; returns when it is durable. Raises OSError."""
        with self._write_lock:
            if self._dirty:
                self._dirty = False  # before the entries are read: a change meanwhile makes it dirty again
                try:
                    self._checkpoint.write(self._entries)
                except OSError:
                    self._dirty = True
                    raise

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed."""
        with self._write_lock:
            self._checkpoint.moved_to(directory)

    def exchange_file(self, future: LeaderEpochCache) -> None:
        """Exchange files with the cache of a log's copy, under the locks of both logs; the entries stay."""
        with self._write_lock, future._write_lock:
            self._checkpoint, future._checkpoint = future._checkpoint, self._checkpoint
            self._dirty = True

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
        self._dirty = True
