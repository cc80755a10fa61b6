"""`format("barnabas")`: the source and the sink, from which Spark gets readers and writers.

Spark makes it in short-lived Python processes on the driver, by `pyspark_barnabas.DefaultSource`; one thread, no lock.
Options, columns and offset JSON are those of Spark's own Kafka source: moving from one to the other is one word.
"""
# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from barnabas_spark.batch_reader import batch_reader
from barnabas_spark.batch_writer import BarnabasWriter
from barnabas_spark.columns import default_schema
from barnabas_spark.option_checks import check_options, warn_of_stream_options
from barnabas_spark.option_values import OptionValues
from barnabas_spark.stream_reader import BarnabasStreamReader
from barnabas_spark.stream_writer import BarnabasStreamWriter
from barnabas_spark.worker_heap import worker_heap


class BarnabasDataSource(DataSource):
    """A source and a sink for the topics of a Barnabas (or Kafka) broker, without any jar."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options, so that a wrong one fails `load()` or `save()` at once. Raises OptionError."""
        super().__init__(options)
        worker_heap.begin_plan()
        check_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "barnabas"

    def schema(self) -> StructType:
        """Return the columns for a user that names none, with `headers` if `includeHeaders` is set."""
        return default_schema(OptionValues(self.options).boolean("includeHeaders", default=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises OptionError."""
        worker_heap.begin_plan()
        warn_of_stream_options(self.options)
        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query. Raises OptionError."""
        return BarnabasStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises OptionError, also for `overwrite`: topics can only be appended to."""
        return BarnabasWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query. Raises OptionError."""
        return BarnabasStreamWriter(self.options, schema)
