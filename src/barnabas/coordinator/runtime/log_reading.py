"""The reading of a coordinator's partition from its start to its end, in steps.

Called by the loadings of groups and of transactions, on the loading thread. No state, no lock.
Kafka: the loops of GroupMetadataManager.doLoadGroupsAndOffsets and TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.records.errors import CorruptRecord
from barnabas.records.file_records import FileRecords
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog

READ_BYTES: Final = 512 * 1024
"""The most bytes of one read: more would make slices longer. (The load buffer's setting may say less.)"""


def read_in_steps(
    log: UnifiedLog, most_bytes: int, is_wanted: Callable[[], bool], replay: Callable[[bytes], Iterator[int]]
) -> Iterator[None]:
    """Give `replay` each piece of the log, up to its present end, while `is_wanted`; yield between steps.

    `replay` yields the offset behind what it has taken in, -1 before there is one. Raises CorruptRecord when a piece
    makes no progress.
    """
    size = min(READ_BYTES, most_bytes)
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end and is_wanted():
        data = log.read(offset, size, FetchIsolation.LOG_END)
        records = data.records
        try:
            buffer = records.read() if isinstance(records, FileRecords) else records
        finally:
            data.release()
        if not buffer:
            return
        yield
        before = offset
        for reached in replay(buffer):
            if reached >= 0:
                offset = reached
            yield
        # Without this check a log that cannot be read would be read for ever.
        if offset <= before:
            raise CorruptRecord(f"no readable batch at offset {offset}")
