"""`df.write.format("barnabas").mode("append").save()`: a batch write.

Spark makes the writer on the driver, runs a copy of it in each task, and commits on the driver. No lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas_spark.option_values import OptionError
from barnabas_spark.row_sender import send_rows
from barnabas_spark.sink_columns import check_sink_schema
from barnabas_spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


class BarnabasWriter(DataSourceArrowWriter):
    """A writer of a DataFrame's rows to topics.

    When `save()` returns, every row is in the log and acknowledged with acks=all (at least once). A task that Spark
    retries writes its rows again, as with Spark's own Kafka sink; a failed `save()` may have written some rows.
    Raises OptionError for mode("overwrite"), wrong options or columns.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('mode "overwrite" cannot be: a topic is only ever appended to; use mode("append")')
        # Checked here, on the driver: in the tasks, a wrong option would fail each of them, after Spark's retries.
        self._options = SinkOptions.parse(given)
        check_sink_schema(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows. Raises ApiError, ClientTimeout, OptionError."""
        return send_rows(iterator, self._options)
