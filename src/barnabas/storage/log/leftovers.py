"""Files that an interrupted deletion, cleaning or swap has left in a log's directory: removed, or put in their place.

Called by `loader` on the thread that loads the log, before anything in the directory is opened.
Kafka: LogLoader.removeTempFilesAndCollectSwapFiles, LogLoader.load.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from barnabas.config.log_config import LogConfig
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
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.segment.batch_scan import scan_batches

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIXES = (CLEANED_SUFFIX, DELETED_SUFFIX, ".tmp")


def clear_leftovers(directory: str, config: LogConfig, environment: LogEnvironment) -> list[str]:
    """Finish or undo what was interrupted; return the names of the files that are there now. Raises OSError."""
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
