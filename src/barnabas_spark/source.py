"""`format("barnabas")`: the source and the sink, from which Spark gets readers and writers.

Spark makes it for each `load()` and `save()`, in short-lived Python processes on the driver, by
`pyspark_barnabas.DefaultSource`; one thread, no lock. Each process imports only the reader or writer that it makes.
Options, columns and offset JSON are those of Spark's own Kafka source: moving from one to the other is one word.
"""

# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from barnabas_spark.columns import default_schema
from barnabas_spark.options import option_table as table
from barnabas_spark.options.kafka_options import (
    SINK_OPTION_NAMES,
    SOURCE_OPTION_NAMES,
    WITHOUT_EFFECT_ON_SINK,
    WITHOUT_EFFECT_ON_SOURCE,
    refuse_fixed,
)
from barnabas_spark.options.option_table import TOPIC
from barnabas_spark.options.option_values import DeclaredOptions, OptionError, OptionValues
from barnabas_spark.worker_heap import worker_heap

logger = logging.getLogger(__name__)


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
        from barnabas_spark.reading.batch_reader import batch_reader  # noqa: PLC0415 - see the module's docstring

        worker_heap.begin_plan()
        warn_of_stream_options(self.options)
        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query. Raises OptionError."""
        from barnabas_spark.reading.stream_reader import BarnabasStreamReader  # noqa: PLC0415

        return BarnabasStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises OptionError, also for `overwrite`: topics can only be appended to."""
        from barnabas_spark.writing.batch_writer import BarnabasWriter  # noqa: PLC0415

        return BarnabasWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query. Raises OptionError."""
        from barnabas_spark.writing.stream_writer import BarnabasStreamWriter  # noqa: PLC0415

        return BarnabasStreamWriter(self.options, schema)


def check_options(given: Mapping[str, str]) -> None:
    """Check what can be checked without a broker, and warn once of options without effect. Raises OptionError.

    It is not known yet whether the options belong to a batch or a stream.
    """
    options = DeclaredOptions(given)
    if not given or ("provider" in options and "owner" in options):
        # CREATE TABLE gives the properties of the new table as options. A query of the table would be given none.
        raise OptionError(
            "no options are given: set 'kafka.bootstrap.servers', and 'subscribe' to read or 'topic' to write. In SQL,"
            " Spark does not pass on the OPTIONS of CREATE TABLE ... USING barnabas: use"
            " CREATE TEMPORARY VIEW ... USING barnabas OPTIONS (...)"
        )
    refuse_fixed(options)
    options.check_names({*SOURCE_OPTION_NAMES, *SINK_OPTION_NAMES})
    # A sink may take its topics from a column. So options without a topic may be those of a sink, and are checked when
    # Spark asks for a reader or a writer.
    if options.given(table.STRATEGIES):
        from barnabas_spark.options.source_options import SourceOptions  # noqa: PLC0415

        SourceOptions.parse(given, streaming=None)
        _warn_of_no_effect(options, WITHOUT_EFFECT_ON_SOURCE)
    elif TOPIC.name in options:
        from barnabas_spark.options.sink_options import SinkOptions  # noqa: PLC0415

        SinkOptions.parse(given)
        _warn_of_no_effect(options, WITHOUT_EFFECT_ON_SINK)


def warn_of_stream_options(given: Mapping[str, str]) -> None:
    """Warn of options that a batch query ignores."""
    options = DeclaredOptions(given)
    ignored = options.given(option for option in table.SOURCE_OPTIONS if option.queries is table.Queries.STREAM)
    if ignored:
        logger.warning("ignored in a batch query: %s", ", ".join(ignored))


def _warn_of_no_effect(options: DeclaredOptions, names: Iterable[str]) -> None:
    without_effect = [name for name in names if name in options]
    if without_effect:
        logger.warning(
            "accepted, but without effect, because the clients of Barnabas have no such part: %s",
            ", ".join(without_effect),
        )
