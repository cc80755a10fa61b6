"""`df.write.format("barnabas").mode("append").save()`: a batch write.

Spark makes the writer on the driver, runs a copy of it in each task, and commits on the driver. No lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas_spark.options.option_table import EXACTLY_ONCE
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.sink_options import SinkOptions
from barnabas_spark.writing.sink_columns import check_sink_schema
from barnabas_spark.writing.written_rows import WrittenRows, end_transactions

if TYPE_CHECKING:
    import pyarrow as pa


class BarnabasWriter(DataSourceArrowWriter):
    """A writer of a DataFrame's rows to topics.

    When `save()` returns, every row is in the log and acknowledged with acks=all (at least once). A task that Spark
    retries writes its rows again, as with Spark's own Kafka sink; a failed `save()` may have written some rows.

    With the options `txnAppId` and `txnVersion`, whose names and meaning are Delta Lake's, a version is written once,
    for readers of committed records: see `transactional_sender`. `foreachBatch` becomes exactly-once by them.
    Raises OptionError for mode("overwrite"), wrong options or columns.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('mode "overwrite" cannot be: a topic is only ever appended to; use mode("append")')
        # Checked here, on the driver: in the tasks, a wrong option would fail each of them, after Spark's retries.
        self._options = SinkOptions.parse(given)
        if self._options.exactly_once:
            raise OptionError(f"option {EXACTLY_ONCE.name!r} belongs to streams; use 'txnAppId' and 'txnVersion' here")
        check_sink_schema(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows. Raises ApiError, ClientTimeout, OptionError."""
        # Imported when used: only the workers need a producer.
        from barnabas_spark.writing.row_sender import send_rows  # noqa: PLC0415

        identity = self._options.write_identity
        if identity is None:
            return send_rows(iterator, self._options)
        from barnabas_spark.writing.transactional_sender import send_rows_once  # noqa: PLC0415

        return send_rows_once(iterator, self._options, identity)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions, after all tasks have written. Raises ApiError, ClientTimeout."""
        end_transactions([cast("WrittenRows", message) for message in messages if message], self._options, commit=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of a failed write. Without any, the rows of other tasks stay written."""
        end_transactions([cast("WrittenRows", message) for message in messages if message], self._options, commit=False)
