"""Which leader epoch began at which offset of a log, kept in `leader-epoch-checkpoint` (KIP-101, KIP-279).

One per log. Changed under the log's lock, read from any thread: every change replaces the immutable list of entries.
Changes are written by `flush`, which the log calls before it moves its recovery point; what a crash loses is found
again in the batches behind the recovery point. `_write_lock` orders the writes. Kafka: LeaderEpochFileCache.
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
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first batch, or the log end offset at which it began."""

    epoch: int
    start_offset: int


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


class LeaderEpochCache:
    """Epochs and start offsets, both rising."""

    __slots__ = ("_checkpoint", "_dirty", "_entries", "_write_lock", "latest_epoch")

    def __init__(self, checkpoint: LeaderEpochCheckpointFile) -> None:
        self._checkpoint = checkpoint
        self._write_lock = threading.Lock()
        self._dirty = False
        self._entries: tuple[EpochEntry, ...] = ()
        self.latest_epoch = UNDEFINED_EPOCH
        """The newest epoch, -1 when there is none; a plain attribute because every append compares with it."""

    def load(self) -> None:
        """Read the file. Raises MalformedCheckpoint, OSError."""
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
        """Note that `epoch` begins at `start_offset`; True if that is news.

        Entries that contradict it, of later epochs or offsets, are dropped: they were never committed.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        kept = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        if len(kept) < len(entries):
            logger.info("New epoch %d from offset %d replaces %s", epoch, start_offset, entries[len(kept) :])
        self._set((*kept, EpochEntry(epoch, start_offset)))
        return True

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that the batch at `offset` was written in."""
        entries = self._entries
        place = bisect_right(entries, offset, key=_start_offset)
        return entries[place - 1].epoch if place else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The largest epoch not above `epoch`, and the offset behind its last batch; (-1, -1) when nothing is known.

        The newest epoch ends at the log's end. An epoch older than all known ones ends where the first known begins.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        place = bisect_right(entries, epoch, key=_epoch)
        end_offset = entries[place].start_offset
        return EpochEntry(entries[place - 1].epoch if place else epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log ends at `end_offset` now: drop the epochs that begin there or behind it."""
        kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
        if len(kept) < len(self._entries):
            self._set(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts at `start_offset` now: the epoch of that offset begins there, older ones are dropped."""
        entries = self._entries
        place = bisect_right(entries, start_offset, key=_start_offset)
        if (place and entries[place - 1].start_offset < start_offset) or place > 1:
            self._set((EpochEntry(entries[place - 1].epoch, start_offset), *entries[place:]))

    def fill_in_front(self, epochs: Iterable[EpochEntry]) -> None:
        """Add (epoch, start offset) found in batches that lie before the first entry."""
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
        """Drop everything."""
        if self._entries:
            self._set(())

    def flush(self) -> None:
        """Write the file if there are changes; returns when it is durable. Raises OSError."""
        with self._write_lock:
            if self._dirty:
                self._dirty = False
                try:
                    self._checkpoint.write(self._entries)
                except OSError:
                    self._dirty = True
                    raise

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed to this."""
        with self._write_lock:
            self._checkpoint.moved_to(directory)

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
        self._dirty = True
