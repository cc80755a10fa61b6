"""`spark.read.format("barnabas-log")`: a batch query over splits of log files.

Spark makes a reader on the driver when it plans a query, calls `partitions` there and `read` in the executors' Python
workers, with a copy of the reader. No lock: each process uses its own copy on one thread.
"""
# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.readonly.log_split import LogSplit
from barnabas_spark.columns import checked_columns
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.log_plan import plan_splits
from barnabas_spark.log_source.split_records import read_split
from barnabas_spark.pushed_filters import bounds_of
from barnabas_spark.row_bounds import ALL_ROWS
from barnabas_spark.worker_heap import worker_heap

if TYPE_CHECKING:
    import pyarrow as pa


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
