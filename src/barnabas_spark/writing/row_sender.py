"""Encodes one task's rows, sends them, and waits until the broker has acknowledged them all.

Called by both writers in the executors' Python workers, on the task's thread. The producer is the worker's own, kept
between tasks by `client_cache`. No lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from barnabas.clients.arrow import BatchFormat, EncodedBatch, RecordColumns, encode_batches
from barnabas.clients.arrow.row_partitions import grouped_rows, key_partitions
from barnabas.clients.arrow.varints import Integers
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.sink_options import SinkOptions
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.worker_heap import worker_heap
from barnabas_spark.writing.written_rows import WrittenRows

if TYPE_CHECKING:
    from barnabas.clients.producer import Producer, RecordMetadata

_UNANSWERED_BATCHES = 64
"""The number of batches that may wait for the broker before the task waits too."""


class AddressedBatch(NamedTuple):
    """An encoded batch with its topic and partition."""

    topic: str
    partition: int
    batch: EncodedBatch


class RowAddresser:
    """A chooser of each row's topic and partition, which brings the rows of each partition together, and encodes them.

    The partition is, as in Kafka's producer, the column's value, by the key's hash, or each in turn.
    partition_count(topic): the number of the topic's partitions. Rows of one Arrow batch without key and partition go
    to the same partition.
    """

    def __init__(self, options: SinkOptions, partition_count: Callable[[str], int], first_turn: int) -> None:
        self._options = options
        self._partition_count = partition_count
        self._turn = first_turn
        self._format = BatchFormat(options.codec, batch_bytes=options.batch_bytes)

    def batches(self, rows: pa.RecordBatch) -> Iterator[AddressedBatch]:
        """Encode the rows, in order within each partition. Raises OptionError for a row without a valid partition."""
        columns = {name: rows.column(index) for index, name in enumerate(rows.schema.names)}
        for topic, part in self._by_topic(columns, rows.num_rows):
            count = len(part["value"])
            partitions = self._partitions(topic, part, count)
            records = RecordColumns(count, part.get("key"), part["value"], part.get("headers"))
            grouped = grouped_rows(records, partitions)
            row = 0
            # All partitions are encoded together: a call of numpy or Arrow costs as much for a quarter of the rows.
            for batch in encode_batches(grouped.records, self._format, cuts=grouped.cuts):
                yield AddressedBatch(topic, int(grouped.partitions[row]), batch)
                row += batch.record_count

    def _by_topic(self, columns: dict[str, pa.Array], count: int) -> Iterator[tuple[str, dict[str, pa.Array]]]:
        """Yield the rows of each topic. Raises OptionError for a row without a topic."""
        topics = columns.pop("topic", None)
        columns = {name: columns[name] for name in ("key", "value", "headers", "partition") if name in columns}
        if not self._options.include_headers:
            columns.pop("headers", None)
        if not count:
            return
        if self._options.topic is not None:
            yield self._options.topic, columns
            return
        assert topics is not None
        if topics.null_count:
            raise OptionError("a row has NULL in its 'topic' column: give every row a topic, or set option 'topic'")
        encoded = topics.dictionary_encode()
        for index, topic in enumerate(encoded.dictionary.to_pylist()):
            mask = pc.equal(encoded.indices, index)
            yield topic, {name: column.filter(mask) for name, column in columns.items()}

    def _partitions(self, topic: str, columns: dict[str, pa.Array], count: int) -> Integers:
        """Return each row's partition. Raises OptionError for a partition that does not exist."""
        partition_count = self._partition_count(topic)
        # Each Arrow batch takes the next partition, so that rows without keys are spread in large batches rather than
        # small ones.
        self._turn += 1
        partitions = np.full(count, self._turn % partition_count, np.int64)
        keys = columns.get("key")
        if keys is not None and keys.null_count < count:
            keyed = pc.is_valid(keys).to_numpy(zero_copy_only=False)
            partitions[keyed] = key_partitions(keys.drop_null().cast(pa.binary()), partition_count)
        # The partition column comes last, because it overrides the key's hash.
        given = columns.pop("partition", None)
        if given is not None and given.null_count < count:
            named = pc.is_valid(given).to_numpy(zero_copy_only=False)
            partitions[named] = given.drop_null().to_numpy(zero_copy_only=False)
            if int(partitions.min()) < 0 or int(partitions.max()) >= partition_count:
                wrong = int(partitions.min()) if int(partitions.min()) < 0 else int(partitions.max())
                raise OptionError(f"a row names partition {wrong}; topic {topic!r} has 0 to {partition_count - 1}")
        return partitions


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
