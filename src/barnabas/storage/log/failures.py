"""The failures of a log's files: disk errors are reported and translated, rejections have Kafka's texts.

Called by a log and by the modules that do its larger tasks, on any thread. `local`: the files that have failed, which
after a move are not the log's any more. Kafka: UnifiedLog.maybeHandleIOException.
"""

from __future__ import annotations

import logging
import os
from typing import NoReturn

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.errors import CorruptRecord
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.segment.index_file import CorruptIndex

READ_ERRORS = (OSError, CorruptRecord, CorruptIndex)

logger = logging.getLogger(__name__)


def fail(local: LocalLog, doing: str, error: OSError) -> NoReturn:
    """Report a disk error and turn it into the clients' error. Raises ApiError: KAFKA_STORAGE_ERROR, always."""
    report(local, doing, error)
    raise ApiError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"Error while {doing} for {local.topic_partition} in dir {os.path.dirname(local.directory)}: {error}",
    ) from error


def report(local: LocalLog, doing: str, error: OSError) -> None:
    """Report a disk error. After a full disk, or too many open files, the log goes on when there is room.

    Any other error takes the log directory offline.
    """
    local.environment.on_failure(os.path.dirname(local.directory), f"{doing} for {local.topic_partition}", error)


def segment_too_small(local: LocalLog, size: int) -> ApiError:
    """Return the error for a batch of `size` bytes, which is larger than `segment.bytes`."""
    return ApiError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size} bytes in append to partition {local.topic_partition}, which exceeds"
        f" the maximum configured segment size of {local.config.segment_bytes}.",
    )


def fail_reading(local: LocalLog, doing: str, error: OSError | CorruptRecord | CorruptIndex) -> NoReturn:
    """Turn a reader's error into the client's, and report it.

    Raises ApiError: KAFKA_STORAGE_ERROR after a disk error, CORRUPT_MESSAGE when a log file or index is damaged.
    """
    if isinstance(error, OSError):
        fail(local, doing, error)
    text = f"{error} in topic partition {local.topic_partition}"
    logger.error("Error while %s: %s", doing, text)
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, text) from error


def out_of_range(local: LocalLog, offset: int, start: int) -> ApiError:
    """Return the error for a read at `offset` of a log that starts at `start`."""
    return ApiError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Received request for offset {offset} for partition {local.topic_partition}, but we only have log"
        f" segments in the range {start} to {local.end.message_offset}.",
    )
