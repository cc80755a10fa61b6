"""`spark.read.format("barnabas-log")`: a batch query over splits of log files, each read as Arrow batches.

Spark makes a reader on the driver when it plans a query, calls `partitions` there and `read` in the executors' Python
workers, with a copy of the reader. No lock: each process uses its own copy on one thread.
"""

# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barnabas.clients.arrow import Wanted, empty_headers, record_batch_of
from barnabas.clients.arrow.fetched_batches import decoded_chunks
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Files, OperatingSystemFiles
from barnabas.storage.readonly.log_split import LogSplit, SplitBatches
from barnabas.storage.readonly.partition_log import RecordsDeleted, unreadable
from barnabas_spark.columns import checked_columns
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.log_plan import plan_splits
from barnabas_spark.log_source.sidecars import current_sidecar, read_sidecar
from barnabas_spark.reading.row_bounds import ALL_ROWS, bounds_of
from barnabas_spark.worker_heap import worker_heap

logger = logging.getLogger(__name__)

_HEADERS = "headers"


def read_split(
    split: LogSplit, options: LogSourceOptions, columns: Sequence[str], files: Files
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, in order, as Arrow batches of `columns`, which are those of Spark's Kafka source.

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


class SplitPartition(InputPartition):
    """One task's split."""

    value: LogSplit


class BarnabasLogReader(DataSourceReader):
    """A reader of the offsets that the directories held when the query was planned."""

    def __init__(self, options: LogSourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = checked_columns(schema)
        self._bounds = ALL_ROWS

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits. Raises LogUnreadable, OptionError, OSError."""
        splits = plan_splits(self._options, self._bounds, OperatingSystemFiles(read_only=True))
        return [SplitPartition(each) for each in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split, as Arrow batches. Raises LogUnreadable, OSError."""
        # Where `partitions` returns no split, Spark calls this method once with a partition of its own.
        if partition.value is None:
            return iter(())
        worker_heap.begin_task()
        split = cast("SplitPartition", partition).value
        return read_split(split, self._options, self._columns, OperatingSystemFiles(read_only=True))


class FilteringLogReader(BarnabasLogReader):
    """A reader that leaves out splits in which the query's filters find nothing (option `pushFilters`).

    Spark keeps a reader's plan with the DataFrame: a second query of the same DataFrame would get the splits of the
    first one's filters. Therefore this reader is made only if the user asks for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters' bounds, and return all filters: Spark applies them to the rows that are left."""
        self._bounds = bounds_of(filters)
        return filters


def log_reader(given: Mapping[str, str], schema: StructType) -> BarnabasLogReader:
    """Return the reader for the options. Raises OptionError."""
    options = LogSourceOptions.parse(given)
    return FilteringLogReader(options, schema) if options.push_filters else BarnabasLogReader(options, schema)
