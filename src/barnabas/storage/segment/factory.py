"""Makes and opens segments, with the parts that all segments of a broker share.

One per log manager, used by logs and the loader on any thread. Immutable; the shared parts have locks of their own.
Kafka: LogSegment.open, LogConfig.randomSegmentJitter.
"""

from __future__ import annotations

import os
import random

from barnabas.config.log_config import LogConfig
from barnabas.runtime.clock import Clock
from barnabas.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from barnabas.storage.segment.file import OpenFiles, SegmentFile
from barnabas.storage.segment.index_file import IndexPages
from barnabas.storage.segment.indexes import SegmentIndexes
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.offset_index import OffsetIndex
from barnabas.storage.segment.time_index import TimeIndex
from barnabas.storage.segment.transaction_index import TransactionIndex


class SegmentFactory:
    """Makes segments. open_files, pages: the shared bounds on descriptors and index pages. random: for roll jitter."""

    __slots__ = ("clock", "open_files", "pages", "random")

    def __init__(self, open_files: OpenFiles, pages: IndexPages, clock: Clock, chance: random.Random) -> None:
        self.open_files = open_files
        self.pages = pages
        self.clock = clock
        self.random = chance

    def create(self, directory: str, base_offset: int, config: LogConfig) -> LogSegment:
        """Make a new, empty segment; stale files of the same names are removed. Raises OSError.

        With `preallocate` the log file has its full size at once, and is cut to its content when it rolls or closes.
        """
        # Entries of a stale index would point at batches that are not in the new log file.
        files = self.open_files.files
        for suffix in SEGMENT_SUFFIXES:
            stale = os.path.join(directory, segment_file_name(base_offset, suffix))
            if files.exists(stale):
                files.unlink(stale)
        file = SegmentFile(os.path.join(directory, segment_file_name(base_offset, LOG_SUFFIX)), self.open_files)
        file.create()
        if config.preallocate:
            file.truncate(config.segment_bytes)
        segment = self._segment(file, base_offset, config, size=0, is_new=True)
        segment.is_preallocated = config.preallocate
        return segment

    def open(self, directory: str, base_offset: int, config: LogConfig, suffix: str = "") -> LogSegment:
        """Open the segment whose log file exists; the names of its files end in `suffix`. Raises OSError."""
        name = segment_file_name(base_offset, LOG_SUFFIX) + suffix
        file = SegmentFile(os.path.join(directory, name), self.open_files)
        return self._segment(file, base_offset, config, size=file.size(), is_new=False, suffix=suffix)

    def _segment(
        self, file: SegmentFile, base_offset: int, config: LogConfig, *, size: int, is_new: bool, suffix: str = ""
    ) -> LogSegment:
        """Return the segment of `file`, with the indexes beside it. Raises OSError."""
        stem = file.path.removesuffix(LOG_SUFFIX + suffix)
        index = SegmentFile(stem + INDEX_SUFFIX + suffix, self.open_files)
        time_index = SegmentFile(stem + TIME_INDEX_SUFFIX + suffix, self.open_files)
        index_bytes = config.segment_index_bytes
        # Most segments abort nothing: without a file there is no object either.
        transactions = None
        if not is_new:
            transaction_file = SegmentFile(stem + TRANSACTION_INDEX_SUFFIX + suffix, self.open_files)
            if transaction_file.exists():
                transactions = TransactionIndex(transaction_file, base_offset, is_new=False)
        return LogSegment(
            base_offset,
            file,
            SegmentIndexes(
                file,
                OffsetIndex(index, base_offset, index_bytes, self.pages, is_new=is_new),
                TimeIndex(time_index, base_offset, index_bytes, self.pages, is_new=is_new),
                transactions,
                config.index_interval_bytes,
            ),
            size=size,
            created_ms=self.clock.milliseconds(),
            roll_jitter_ms=self._jitter_ms(config),
        )

    def _jitter_ms(self, config: LogConfig) -> int:
        # Logs that are made together would all roll together, a week later, and sync together.
        bound = min(config.segment_jitter_ms, config.segment_ms)
        return self.random.randrange(bound) if bound > 0 else 0
