"""Sends whole tables: chooses each row's partition, encodes the batches of a stretch of rows, and queues them.

`Producer.send_table` makes one and calls it, on any thread. It shares no state with the sending thread, beyond
deliveries. Ready batches go through the accumulator like those of `send`, so retries, sequence numbers
(idempotence), `buffer.memory` and `flush` hold for tables, too. Kafka has no counterpart.

A table of 1,000,000 rows of 100 bytes with keys, for a topic with three partitions: `TableColumns` checks all rows.
The first stretch has some 58,000 rows, 8 MiB. Their keys are hashed at once, and a stable sort by partition brings
the rows of each partition together, in their order. One call encodes all of them: a batch is cut at each change of
partition, and before it exceeds 256 KiB. So 33 batches are queued, eleven for each partition, and the next stretch is
encoded while the sending thread sends these; `buffer.memory` holds the caller back once 32 MiB are unsent.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import NamedTuple

from barnabas.clients.arrow.encoder import BatchFormat, encode_batches
from barnabas.clients.arrow.row_partitions import RowPartitions, TopicPartitions, grouped_rows
from barnabas.clients.arrow.table_columns import ColumnNames, Stretch, TableColumns, as_table
from barnabas.clients.arrow.table_delivery import BatchCallback, BatchRows, TableDelivery, TableMetadata
from barnabas.clients.arrow.varints import Integers
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.protocol.errors import ApiError
from barnabas.records.record_batch import HEADER_SIZE, EncodedBatch

STRETCH_BYTES = 8 << 20
"""The bytes of rows that are encoded together: with more, the sending thread would have nothing to do at first."""


class TableLimits(NamedTuple):
    """The producer's limits. `record_bytes` is the largest record, which `record_setting` names."""

    batch_format: BatchFormat
    record_bytes: int
    record_setting: str


class TableProducer:
    """The tables of one producer.

    send_batch(topic, partition, batch, callback): queues one batch, and waits while `buffer.memory` is full. Errors go
    to the callback.
    await_partitions(topic, partition): the topic's partitions once the topic, and this partition, are known. It raises
    ClientTimeout and ApiError.
    """

    def __init__(
        self,
        send_batch: Callable[[str, int, EncodedBatch, BatchCallback], object],
        await_partitions: Callable[[str, int | None], tuple[PartitionInfo, ...]],
        limits: TableLimits,
        random: Random,
        *,
        ignore_keys: bool = False,
    ) -> None:
        self._send_batch = send_batch
        self._await_partitions = await_partitions
        self._limits = limits
        # A compressed batch may be a little larger than its content, and has a header.
        largest = limits.record_bytes - HEADER_SIZE - limits.record_bytes // 64
        self._format = limits.batch_format._replace(batch_bytes=max(min(limits.batch_format.batch_bytes, largest), 1))
        self._partitions = RowPartitions(random, self._format.batch_bytes, ignore_keys=ignore_keys)

    def send(self, topic: str, data: object, names: ColumnNames, now_ms: int) -> Future[TableMetadata]:
        """Queue all rows, and return a future of their places.

        Raises TypeError and ValueError, before any row is queued, for columns and rows that cannot be sent;
        ClientClosed.
        """
        columns = TableColumns(as_table(data), names, now_ms)
        columns.check_sizes(self._limits.record_bytes - HEADER_SIZE, self._limits.record_setting)
        delivery = TableDelivery(topic, columns.row_count)
        highest = None
        if columns.partitions is not None and columns.row_count and int(columns.partitions.max()) >= 0:
            highest = int(columns.partitions.max())
        try:
            infos = self._await_partitions(topic, highest)
        except (ApiError, ClientTimeout) as error:
            delivery.finish([BatchRows(0, columns.row_count)], error)
            return delivery.future
        partitions = TopicPartitions(len(infos), [info.partition for info in infos if info.leader >= 0])
        for rows in columns.stretches(STRETCH_BYTES):
            unsent = self._send_stretch(topic, partitions, columns, rows, delivery)
            if unsent is not None:
                # Most failures hold for the later rows, too, and these must not arrive without those that failed.
                delivery.finish([unsent, BatchRows(rows.stop, columns.row_count)])
                return delivery.future
        delivery.finish()
        return delivery.future

    def _send_stretch(
        self, topic: str, partitions: TopicPartitions, columns: TableColumns, rows: Stretch, delivery: TableDelivery
    ) -> BatchRows | None:
        """Queue these rows. Returns the rows that were not queued because a batch has failed, or None."""
        start, stop = rows
        records = columns.records(rows)
        wanted = None if columns.partitions is None else columns.partitions[start:stop]
        chosen = self._partitions.choose(topic, partitions, wanted, records.keys, columns.sizes[start:stop])
        grouped = grouped_rows(records, chosen)
        order = None if grouped.order is None else grouped.order + start
        row = 0
        for batch in encode_batches(grouped.records, self._format, cuts=grouped.cuts):
            if delivery.has_failed:
                return _batch_rows(row, stop - start, start, order)
            partition = int(grouped.partitions[row])
            placed = _batch_rows(row, row + batch.record_count, start, order)
            ended = delivery.begin_batch(partition, placed, batch.size)
            self._send_batch(topic, partition, batch, ended)
            row += batch.record_count
        return None


def _batch_rows(first: int, stop: int, start: int, order: Integers | None) -> BatchRows:
    """Return the rows of a batch, whose places in the stretch that begins at row `start` are given."""
    return BatchRows(start + first, start + stop) if order is None else BatchRows(first, stop, order)
