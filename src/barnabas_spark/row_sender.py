"""Sends one task's rows and waits until the broker has acknowledged them all.

Called by both writers in the executors' Python workers, on the task's thread. The producer is the worker's own, kept
between tasks by `client_cache`. No lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from barnabas.clients.prepared_transaction import PreparedTransaction
from barnabas.clients.producer import Producer, RecordMetadata
from barnabas_spark.client_cache import connections
from barnabas_spark.sink_options import SinkOptions
from barnabas_spark.sink_rows import RowAddresser
from barnabas_spark.worker_heap import worker_heap

if TYPE_CHECKING:
    import pyarrow as pa

_UNANSWERED_BATCHES = 64
"""The number of batches that may wait for the broker before the task waits too."""


class WrittenRows(WriterCommitMessage):
    """The result of one task."""

    def __init__(self, rows: int, size_bytes: int, prepared: PreparedTransaction | None = None) -> None:
        self.rows = rows
        self.size_bytes = size_bytes
        self.prepared = prepared
        """The transaction in which the rows are. The driver ends it. None: they are in no transaction."""


def send_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> WrittenRows:
    """Write Arrow batches with acks=all. Raises ApiError when the broker rejects one, ClientTimeout, OptionError."""
    producer = connections.producer(options)
    try:
        return deliver(batches, options, producer, set())
    except BaseException:
        # Spark cancels a task by an exception too. Its queued rows must not be sent by the worker's next task.
        connections.discard_producer(options)
        raise


def deliver(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, producer: Producer, topics: set[str]
) -> WrittenRows:
    """Send the rows by a producer, and wait until the broker has all. The topics written to are added to `topics`.

    Raises ApiError, ClientTimeout, OptionError.
    """
    worker_heap.begin_task()
    context = TaskContext.get()
    addresser = RowAddresser(
        options, lambda topic: len(producer.partitions_for(topic)), context.partitionId() if context else 0
    )
    unanswered: deque[Future[RecordMetadata]] = deque()
    rows = size_bytes = 0
    for batch in batches:
        for topic, partition, encoded in addresser.batches(batch):
            topics.add(topic)
            unanswered.append(producer.send_batch(topic, partition, encoded))
            rows += encoded.record_count
            size_bytes += encoded.size
            if len(unanswered) >= _UNANSWERED_BATCHES:
                # The oldest result is awaited first: its batch is the likeliest to have been answered.
                unanswered.popleft().result()
    for future in unanswered:
        future.result()
    return WrittenRows(rows, size_bytes)
