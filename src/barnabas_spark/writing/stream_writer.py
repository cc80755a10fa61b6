"""`df.writeStream.format("barnabas").start()`: a streaming write, which notes its commits beside the checkpoint.

For every micro-batch Spark makes a writer on the driver, runs a copy of it in each task, and commits or aborts on the
driver with another one. So only fields that are pickled into the tasks survive in `self`. No lock.
"""

# ruff: noqa: N803 the names are Spark's

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas_spark.options.option_table import EXACTLY_ONCE
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.sink_options import SinkOptions, WriteIdentity
from barnabas_spark.writing.sink_columns import check_sink_schema
from barnabas_spark.writing.written_rows import WrittenRows, end_transactions

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs


logger = logging.getLogger(__name__)

_BATCH_ID_PROPERTY = "streaming.sql.batchId"
_QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""The properties with the number of a task's micro-batch and its query: undocumented, found in Spark 4.2 and 4.3."""
_COMMITS_DIRECTORY = "barnabas-sink"
_COMMITS_FILE_NAME = "committed.json"


class _CommittedBatches:
    """The last micro-batch that the sink of one query has committed, in a file beside the checkpoint.

    Called on the driver, one process at a time. The file is replaced atomically. The checkpoint directory belongs to
    one query, so the file in it needs no query id. When Spark dies between the sink's commit and its own, it plans the
    micro-batch again under the same number. By this file the sink recognizes it.

    `checkpoint_location` is a path or URI of a file system that pyarrow knows.
    """

    def __init__(self, checkpoint_location: str) -> None:
        self._location = checkpoint_location

    def last(self) -> int:
        """Return the number of the last committed micro-batch, or -1. Raises ValueError for a damaged file."""
        import pyarrow.fs as pafs  # noqa: PLC0415 - not needed in workers

        filesystem, path = self._place()
        if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            return -1
        with filesystem.open_input_stream(path) as file:
            return int(json.loads(file.read())["batchId"])

    def commit(self, batch_id: int, rows: int) -> None:
        """Note that all rows of the micro-batch are written."""
        filesystem, path = self._place()
        filesystem.create_dir(os.path.dirname(path), recursive=True)
        # The file is moved into place whole: a crash while writing leaves the commit before.
        temporary = f"{path}.tmp"
        with filesystem.open_output_stream(temporary) as file:
            file.write(json.dumps({"batchId": batch_id, "rows": rows}).encode())
        filesystem.move(temporary, path)

    def _place(self) -> tuple[pafs.FileSystem, str]:
        import pyarrow.fs as pafs  # noqa: PLC0415 - as above

        if "://" in self._location or self._location.startswith("file:"):
            filesystem, root = pafs.FileSystem.from_uri(self._location)
        else:
            filesystem, root = pafs.LocalFileSystem(), os.path.abspath(self._location)
        return filesystem, f"{root}/{_COMMITS_DIRECTORY}/{_COMMITS_FILE_NAME}"


class BarnabasStreamWriter(DataSourceStreamArrowWriter):
    """A writer of a streaming query's micro-batches to topics.

    Guaranteed: every row is written at least once, acknowledged with acks=all before Spark commits the micro-batch. A
    micro-batch that the sink has committed is not written again when Spark, having died before its own commit, plans it
    once more: the commit is noted in the query's checkpoint directory, which must be the option `checkpointLocation`
    (not the session's default) for that. A micro-batch that fails half-way, or between its last row and its commit, is
    written again as a whole, so its first rows may be in the topic twice. With the option `exactlyOnce` they are not,
    for readers of committed records: see `transactional_sender`.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        """Raises OptionError: an option is wrong, or is one of batch writes."""
        self._options = SinkOptions.parse(given)
        if self._options.write_identity is not None:
            raise OptionError(
                f"options 'txnAppId' and 'txnVersion' belong to batch writes; use {EXACTLY_ONCE.name!r} here"
            )
        check_sink_schema(schema, self._options)
        location = self._options.checkpoint_location
        self._commits = None if location is None else _CommittedBatches(location)
        self._last_committed = -1 if self._commits is None else self._commits.last()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows, unless they belong to a micro-batch that is committed already.

        Raises OptionError: exactly once was asked for, and Spark does not tell the query and the micro-batch.
        """
        batch_id = _batch_id()
        if batch_id is not None and batch_id <= self._last_committed:
            logger.warning("micro-batch %d is written already; its rows are skipped", batch_id)
            # The rows are read all the same, because Spark's side sends them in any case.
            for _ in iterator:
                pass
            return WrittenRows(0, 0)
        options = self._options
        if batch_id is not None and batch_id > 0:
            # The query has reached the brokers before: a micro-batch waits for their restart, in a new worker too.
            options = replace(options, bootstrap_timeout_ms=max(options.bootstrap_timeout_ms, options.max_block_ms))
        # Imported when used: only the workers need a producer.
        from barnabas_spark.writing.row_sender import send_rows  # noqa: PLC0415

        if not options.exactly_once:
            return send_rows(iterator, options)
        query_id = _property(_QUERY_ID_PROPERTY)
        if batch_id is None or query_id is None:
            raise OptionError(
                f"option {EXACTLY_ONCE.name!r} cannot be: this Spark does not tell its tasks the query and the"
                " micro-batch"
            )
        from barnabas_spark.writing.transactional_sender import send_rows_once  # noqa: PLC0415

        return send_rows_once(iterator, options, WriteIdentity(query_id, batch_id))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the transactions, and note the micro-batch as committed, after all tasks have written.

        Raises ApiError when a transaction was aborted meanwhile, ClientTimeout: the query fails, and writes again.
        """
        written = [cast("WrittenRows", message) for message in messages if message]
        end_transactions(written, self._options, commit=True)
        # A micro-batch that is planned again was committed already; its tasks wrote no rows this time.
        if self._commits is not None and batchId > self._last_committed:
            self._commits.commit(batchId, sum(each.rows for each in written))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of a failed micro-batch. Without any, the rows of other tasks stay written."""
        written = [cast("WrittenRows", message) for message in messages if message]
        end_transactions(written, self._options, commit=False)
        logger.warning(
            "micro-batch %d failed after %d rows; they will be written again",
            batchId,
            sum(each.rows for each in written),
        )


def _batch_id() -> int | None:
    value = _property(_BATCH_ID_PROPERTY)
    return int(value) if value else None


def _property(name: str) -> str | None:
    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value
