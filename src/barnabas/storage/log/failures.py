"""The failures of one log: disk errors are reported and translated, rejections have Kafka's texts.

One per log, used by it and by the modules that do its larger tasks, on any thread; immutable.
Kafka: UnifiedLog.maybeHandleIOException.
"""

from __future__ import annotations

import logging
import os
from typing import NoReturn

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.errors import CorruptRecord
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.segment.index_file import CorruptIndex

READ_ERRORS = (OSError, CorruptRecord, CorruptIndex)

logger = logging.getLogger(__name__)


class LogFailures:
    """The failures of the log whose files are `local`."""

    __slots__ = ("_environment", "_local")

    def __init__(self, local: LocalLog, environment: LogEnvironment) -> None:
        self._local = local
        self._environment = environment

    def fail(self, doing: str, error: OSError) -> NoReturn:
        """Report a disk error and turn it into the clients' error. Raises ApiError: KAFKA_STORAGE_ERROR, always."""
        self.report(doing, error)
        raise ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Error while {doing} for {self._local.topic_partition} in dir {self._parent_dir}: {error}",
        ) from error

    def report(self, doing: str, error: OSError) -> None:
        """Report a disk error. After a full disk, or too many open files, the log goes on when there is room.

        Any other error takes the log directory offline.
        """
        self._environment.on_failure(self._parent_dir, f"{doing} for {self._local.topic_partition}", error)

    def refuse_closed(self) -> NoReturn:
        """Reject an append. Raises ApiError: KAFKA_STORAGE_ERROR, always, because the log is closed."""
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self._local.topic_partition} is closed")

    def segment_too_small(self, size: int) -> ApiError:
        """Return the error for a batch of `size` bytes, which is larger than `segment.bytes`."""
        return ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self._local.topic_partition}, which exceeds"
            f" the maximum configured segment size of {self._local.config.segment_bytes}.",
        )

    def fail_reading(self, doing: str, error: OSError | CorruptRecord | CorruptIndex) -> NoReturn:
        """Turn a reader's error into the client's, and report it.

        Raises ApiError: KAFKA_STORAGE_ERROR after a disk error, CORRUPT_MESSAGE when a log file or index is damaged.
        """
        if isinstance(error, OSError):
            self.fail(doing, error)
        text = f"{error} in topic partition {self._local.topic_partition}"
        logger.error("Error while %s: %s", doing, text)
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, text) from error

    def out_of_range(self, offset: int, start: int) -> ApiError:
        """Return the error for a read at `offset` of a log that starts at `start`."""
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {self._local.topic_partition}, but we only have log"
            f" segments in the range {start} to {self._local.end.message_offset}.",
        )

    @property
    def _parent_dir(self) -> str:
        return os.path.dirname(self._local.directory)
