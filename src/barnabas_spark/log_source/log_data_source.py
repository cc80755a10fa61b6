"""`format("barnabas-log")`: the source from which Spark gets the reader of log files.

Spark makes it in short-lived Python processes on the driver, by `pyspark_barnabas_log.DefaultSource`; one thread, no
lock. Columns are those of Spark's Kafka source.
"""
# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from barnabas_spark.columns import default_schema
from barnabas_spark.options.option_values import OptionError, OptionValues
from barnabas_spark.worker_heap import worker_heap


class BarnabasLogDataSource(DataSource):
    """A source for the topics in a data directory of Barnabas or Apache Kafka, without a broker."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options, which the reader checks."""
        super().__init__(options)
        worker_heap.begin_plan()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "barnabas-log"

    def schema(self) -> StructType:
        """Return the columns for a user that names none, with `headers` if `includeHeaders` is set."""
        return default_schema(OptionValues(self.options).boolean("includeHeaders", default=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises OptionError."""
        # Imported when used: Spark looks for the sources in processes that read nothing.
        from barnabas_spark.log_source.log_batch_reader import log_reader  # noqa: PLC0415

        worker_heap.begin_plan()
        return log_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Refuse a streaming query. Raises OptionError."""
        raise OptionError(_ONLY_BATCH)

    def simpleStreamReader(self, schema: StructType) -> NoReturn:
        """Refuse a streaming query. Raises OptionError."""
        raise OptionError(_ONLY_BATCH)


_ONLY_BATCH = (
    'format "barnabas-log" reads files once, with spark.read; for a stream read the broker:'
    ' spark.readStream.format("barnabas")'
)
