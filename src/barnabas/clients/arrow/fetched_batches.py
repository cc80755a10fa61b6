"""The batches of one fetch answer as Arrow batches with the columns of Spark's Kafka source (`RECORD_SCHEMA`).

Called by the users of RawFetcher, such as the Spark source. A `FetchedBatches` belongs to the thread that made it; no
lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

import numpy as np
import pyarrow as pa

from barnabas.clients.aborted_producers import AbortedProducers
from barnabas.clients.arrow.decoder import (
    EVERYTHING,
    RecordArrays,
    UnpackedBatch,
    Wanted,
    decode_record_batches,
)
from barnabas.clients.arrow.gatherer import HEADERS_TYPE, empty_headers, numbers, repeated_number, repeated_text
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import RecordBatch

RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
COLUMNS: tuple[str, ...] = tuple(RECORD_SCHEMA.names)

MAX_OFFSET = (1 << 63) - 1
CHUNK_BYTES = 4 << 20
CHUNK_RECORDS = 1 << 14
"""The uncompressed size and the number of records up to which batches are decoded together.

Each Arrow batch costs Spark's JVM and the worker up to a millisecond together, so large records come in batches of a
few MB. What is computed of as many small records stays in a processor's second cache.
"""

_NO_TIMESTAMP_TYPE = -1


class FetchedBatches:
    """The whole batches of fetched bytes. A batch that is cut off at the end is left for the next fetch.

    Only the batch headers are read, so that the next fetch can be sent before this one is decoded. `aborted`: the
    transactions whose records are left out, as the answer lists them. Raises CorruptRecord for a header that lies about
    its size or has an unknown format.
    """

    __slots__ = ("_aborted", "_batches", "next_offset")

    def __init__(self, buffer: Buffer, aborted: Sequence[FetchResponse.AbortedTransaction] = ()) -> None:
        self._aborted = aborted
        self._batches: list[RecordBatch | LegacyBatch] = list(any_batches(buffer))
        self.next_offset: int | None = self._batches[-1].next_offset if self._batches else None
        """The offset of the next fetch, or None when not even one batch is whole."""

    def decode(
        self,
        *,
        start_offset: int = 0,
        end_offset: int = MAX_OFFSET,
        wanted: Wanted = EVERYTHING,
        verify_crc: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> Iterator[RecordArrays]:
        """Yield records with `start_offset` <= offset < `end_offset`, about `chunk_bytes` at a time.

        Control batches and aborted records are skipped. Raises CorruptRecord for a wrong checksum and for anything
        inside a batch that does not add up.
        """
        relevant = self._relevant(start_offset, end_offset, verify_crc)
        yield from decoded_chunks(relevant, start_offset, end_offset, wanted, chunk_bytes)

    def _relevant(self, start_offset: int, end_offset: int, verify_crc: bool) -> Iterator[RecordBatch | LegacyBatch]:
        """Yield the batches that may hold records in the range, after a check of each."""
        left_out = AbortedProducers(self._aborted)
        for batch in self._batches:
            if batch.next_offset <= start_offset:
                continue
            # The first offset of a compressed message of the old format is known only when it is unpacked.
            if isinstance(batch, RecordBatch) and batch.base_offset >= end_offset:
                return
            if verify_crc:
                batch.check()
            if batch.is_control:
                left_out.pass_marker(batch)
            elif not left_out.has_batch(batch):
                yield batch


def decoded_chunks(
    batches: Iterable[RecordBatch | LegacyBatch],
    start_offset: int,
    end_offset: int,
    wanted: Wanted,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[RecordArrays]:
    """Yield the records of batches of one buffer, about `chunk_bytes` at a time. Raises CorruptRecord."""
    for batch_type, run in groupby(batches, type):
        if batch_type is LegacyBatch:
            yield _decode_legacy(cast("Iterator[LegacyBatch]", run), start_offset, end_offset, wanted)
            continue
        for chunk in _chunks(cast("Iterator[RecordBatch]", run), chunk_bytes):
            yield decode_record_batches(chunk, start_offset, end_offset, wanted)


def decode_batches(
    buffer: Buffer,
    topic_partition: TopicPartition,
    *,
    start_offset: int = 0,
    end_offset: int = MAX_OFFSET,
    columns: Sequence[str] = COLUMNS,
    verify_crc: bool = True,
) -> pa.RecordBatch:
    """Return the records of a buffer as one Arrow batch with `columns` of RECORD_SCHEMA. Raises CorruptRecord."""
    wanted = Wanted("key" in columns, "value" in columns, "headers" in columns)
    fetched = FetchedBatches(buffer).decode(
        start_offset=start_offset, end_offset=end_offset, wanted=wanted, verify_crc=verify_crc
    )
    chunks = [record_batch_of(records, *topic_partition, columns) for records in fetched]
    if not chunks:
        return pa.RecordBatch.from_pylist([], schema=_schema_of(columns))
    return chunks[0] if len(chunks) == 1 else pa.concat_batches(chunks)


def record_batch_of(
    records: RecordArrays, topic: str, partition: int, columns: Sequence[str] = COLUMNS
) -> pa.RecordBatch:
    """Return decoded records as an Arrow batch with `columns` of RECORD_SCHEMA, in that order.

    Headers that were not decoded are empty lists: a NULL list costs Spark eleven times as much.
    """
    count = len(records.offsets)
    makers: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: records.keys,
        "value": lambda: records.values,
        "topic": lambda: repeated_text(topic, count),
        "partition": lambda: repeated_number(partition, count),
        "offset": lambda: numbers(records.offsets, pa.int64()),
        "timestamp": lambda: numbers(records.timestamps * 1000, pa.timestamp("us", tz="UTC")),
        "timestampType": lambda: numbers(records.timestamp_types.astype(np.int32), pa.int32()),
        "headers": lambda: empty_headers(count) if records.headers is None else records.headers,
    }
    return pa.RecordBatch.from_arrays([makers[name]() for name in columns], schema=_schema_of(columns))


def _schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([RECORD_SCHEMA.field(name) for name in columns])


def _chunks(run: Iterator[RecordBatch], chunk_bytes: int) -> Iterator[list[UnpackedBatch]]:
    """Yield unpacked batches of about `chunk_bytes`, so that no more than that and one batch is in memory."""
    chunk: list[UnpackedBatch] = []
    size = record_count = 0
    for batch in run:
        unpacked = UnpackedBatch.of(batch)
        chunk.append(unpacked)
        size += unpacked.size
        record_count += batch.count
        if size >= chunk_bytes or record_count >= CHUNK_RECORDS:
            yield chunk
            chunk, size, record_count = [], 0, 0
    if chunk:
        yield chunk


def _decode_legacy(run: Iterable[LegacyBatch], start_offset: int, end_offset: int, wanted: Wanted) -> RecordArrays:
    """Decode batches of magic 0 and 1, which only old logs hold, record by record."""
    rows = [
        (record, batch.timestamp_type if batch.magic else _NO_TIMESTAMP_TYPE)
        for batch in run
        for record in batch.records()
        if start_offset <= record.offset < end_offset
    ]
    return RecordArrays(
        keys=pa.array([record.key for record, _ in rows], pa.binary()) if wanted.keys else None,
        values=pa.array([record.value for record, _ in rows], pa.binary()) if wanted.values else None,
        headers=None,
        offsets=np.array([record.offset for record, _ in rows], np.int64),
        timestamps=np.array([record.timestamp for record, _ in rows], np.int64),
        timestamp_types=np.array([timestamp_type for _, timestamp_type in rows], np.int64),
    )
