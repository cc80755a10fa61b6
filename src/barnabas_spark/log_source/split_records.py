"""Reads one split of a log as Arrow batches with the columns of Spark's Kafka source.

Called by the reader in the executors' Python workers, on the task's thread; needs no Spark. No lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from barnabas.clients.arrow import Wanted, empty_headers, record_batch_of
from barnabas.clients.arrow.fetched_batches import decoded_chunks
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Files
from barnabas.storage.readonly.log_split import LogSplit
from barnabas.storage.readonly.read_error import RecordsDeleted, unreadable
from barnabas.storage.readonly.split_batches import SplitBatches
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.sidecars import current_sidecar, read_sidecar

logger = logging.getLogger(__name__)

_HEADERS = "headers"


def read_split(
    split: LogSplit, options: LogSourceOptions, columns: Sequence[str], files: Files
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, in order, as Arrow batches of `columns`.

    Raises RecordsDeleted if they were deleted after the query was planned and `failOnDataLoss` is on; LogUnreadable for
    damage, with its place; OSError.
    """
    # A sidecar has the records of aborted transactions as well, so it cannot serve a split that leaves some out.
    sidecar = current_sidecar(split.path, files) if options.use_sidecars and not split.aborted else None
    if sidecar is not None:
        yield from _without_headers(read_sidecar(sidecar, split, columns), options)
        return
    wanted = Wanted("key" in columns, "value" in columns, _HEADERS in columns and options.include_headers is not False)
    topic, partition = split.topic_partition
    try:
        for batches in SplitBatches(split, files, check_crcs=options.check_crcs):
            try:
                for records in decoded_chunks(batches, split.start_offset, split.end_offset, wanted):
                    if len(records.offsets):
                        yield record_batch_of(records, topic, partition, columns)
            except CorruptRecord as error:
                first = max(batches[0].last_offset, split.start_offset)
                raise unreadable(split.topic_partition, first, split.path, error) from None
    except RecordsDeleted as error:
        if options.fail_on_data_loss:
            raise
        logger.warning("%s", error)


def _without_headers(batches: Iterator[pa.RecordBatch], options: LogSourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the batches, with empty headers if the user wants none."""
    for batch in batches:
        if options.include_headers is False and _HEADERS in batch.schema.names:
            number = batch.schema.get_field_index(_HEADERS)
            yield batch.set_column(number, batch.schema.field(number), empty_headers(batch.num_rows))
        else:
            yield batch
