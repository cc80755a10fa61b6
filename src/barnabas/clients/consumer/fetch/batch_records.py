"""Decodes the records of one batch straight into ConsumerRecords, as many at a time as a poll returns.

Made by CompletedFetch for each batch that it reaches; owned by the consumer's thread; no lock. `records.v2.walk`
decodes the same format for everything else; this reader is the consumer's hot path.
Kafka: CompletedFetch.nextFetchedRecord.

One loop decodes a record without a call: numbers of one and two bytes, which nearly all lengths and deltas are, are
decoded where they stand. `_LENGTHS` maps the first byte of a length to the length. A byte that begins a longer number,
or a negative one, maps to `FAR`, and sends the loop to the careful functions of `walk`. The loop does not
test each field against the end of its record: the fields lead exactly to the end, which is tested once, or the record
is malformed. A field that leads out of the batch ends in an IndexError. Uniform records are taken by
`uniform_records` instead.

For example, the record 0e 00 00 00 02 61 01 00 of topic t-0, in a batch with base offset 40: 7 bytes follow (0e), no
attributes, timestamp delta 0, offset delta 0, a key of one byte (02), null (01) as the value, no headers (00). The
loop steps over the attributes, appends offset 40 with key b"a", and finds itself where the length said.
"""

from __future__ import annotations

from typing import Final

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.uniform_records import BatchFields, KnownShapes, RunStart, take_uniform_run
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import LOG_APPEND_TIME, RecordBatch
from barnabas.records.v2.layout import FAR, MAX_VARINT_BYTES, decode_zigzag, shape_at
from barnabas.records.v2.walk import read_bytes, read_headers

_LENGTHS: Final = tuple(FAR if first & 1 else 1 + (first >> 1) for first in range(128)) + (FAR,) * 128
"""First byte of a length -> its own byte and what it counts. Bit 0 is the sign, bit 7 says that more bytes follow."""
_NULL: Final = 1
"""The length -1 in zigzag."""
_SHORT_RUN: Final = 16
"""A run of fewer records costs more than their decoding one by one (measured)."""
_SHORT_KNOWN_RUN: Final = 6
"""The same for a run whose shape is known from an earlier batch."""
_PATIENCE: Final = 2
"""After so many short runs, the rest of what a call takes is decoded one by one: the records differ."""


class BatchRecords:
    """The records of a v2 batch that were not taken yet. The constructor raises CorruptRecord for bad compression.

    shapes: those of the records in earlier batches of the answer. This batch adds its own.
    """

    __slots__ = ("_body", "_error", "_fields", "_index", "_position", "_shapes", "batch")

    def __init__(self, topic_partition: TopicPartition, batch: RecordBatch, shapes: KnownShapes) -> None:
        self.batch = batch
        self._shapes = shapes
        self._body = batch.decompressed_records()
        topic, partition = topic_partition
        timestamp_type = batch.timestamp_type
        # KIP-32: the records of a stamped batch keep the producer's deltas; the max timestamp replaces all of them.
        append_time = batch.max_timestamp if timestamp_type == LOG_APPEND_TIME else None
        self._fields = BatchFields(
            topic, partition, batch.base_offset, batch.base_timestamp, timestamp_type, append_time
        )
        self._index = 0
        self._position = 0
        self._error: CorruptRecord | None = None
        if batch.count < 0:
            raise CorruptRecord(f"a batch claims {batch.count} records")

    @property
    def is_done(self) -> bool:
        """Whether all records were taken, and nothing is wrong with the batch."""
        return self._index == self.batch.count and self._error is None

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the next records, at most `limit`. Good records are returned before an error is raised.

        Raises CorruptRecord when the next record is malformed, or bytes follow the last one.
        """
        if self._error is not None:
            raise self._error
        taken: list[ConsumerRecord] = []
        try:
            until = min(self._index + limit, self.batch.count)
            self._take_runs(taken, until)
            self._decode(taken, until)
            if self._index == self.batch.count and self._position != len(self._body):
                left = len(self._body) - self._position
                raise CorruptRecord(f"{left} bytes behind the last of {self.batch.count} records")
        except CorruptRecord as error:
            self._error = error
            if not taken:
                raise
        return taken

    def _take_runs(self, taken: list[ConsumerRecord], until: int) -> None:
        """Append records up to index `until` at most, while they are uniform. Raises CorruptRecord."""
        body, fields, shapes = self._body, self._fields, self._shapes
        patience = _PATIENCE
        while patience and until - self._index >= _SHORT_KNOWN_RUN:
            delta = taken[-1].offset + 1 - fields.base_offset if taken else self._index
            shape = shapes.expected(delta)
            limit = until - self._index
            at = RunStart(self._position, delta)
            run = [] if shape is None else take_uniform_run(body, at, shape, limit, fields)
            if shape is None or not run:
                if limit <= _SHORT_RUN:
                    if not shapes.lessons:
                        return
                    shapes.lessons -= 1
                start = self._position
                self._decode(taken, self._index + 1)
                # Most records of other sizes show it in the first byte of their length.
                if self._position < len(body) and body[self._position] != body[start]:
                    patience -= 1
                    continue
                last = taken[-1]
                if last.headers:
                    return
                delta = last.offset + 1 - fields.base_offset
                shape = shape_at(body, start)
                if shape is None:
                    patience -= 1
                    continue
                shapes.add(shape)
                run = take_uniform_run(body, RunStart(self._position, delta), shape, limit - 1, fields)
            taken += run
            self._index += len(run)
            self._position += len(run) * shape.size
            if len(run) < _SHORT_RUN:
                patience -= 1

    def _decode(self, taken: list[ConsumerRecord], until: int) -> None:  # noqa: C901, PLR0912, PLR0915 - unrolled
        """Append the records up to index `until` to `taken`. Raises CorruptRecord."""
        topic, partition, base_offset, base_timestamp, timestamp_type, append_time = self._fields
        body = self._body
        total = len(body)
        position = self._position
        lengths = _LENGTHS
        append = taken.append
        # Without the NamedTuple's constructor, a Python function, a record takes half the time.
        new = tuple.__new__
        record_class = ConsumerRecord
        already_taken = len(taken)
        try:
            for index in range(self._index, until):
                first = body[position]
                if first < 0x80:
                    end = position + lengths[first]
                    position += 2  # behind the attributes, a byte that is not used
                elif (second := body[position + 1]) < 0x80 and not first & 1:
                    end = position + 2 + ((first & 0x7E) >> 1) + (second << 6)
                    position += 3
                else:
                    length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                    end = position + length
                    position += 1

                first = body[position]
                if first < 0x80:
                    timestamp = base_timestamp + ((first >> 1) ^ -(first & 1))
                    position += 1
                else:
                    timestamp, position = decode_zigzag(body, position)
                    timestamp += base_timestamp

                first = body[position]
                if first < 0x80:
                    offset = base_offset + ((first >> 1) ^ -(first & 1))
                    position += 1
                elif (second := body[position + 1]) < 0x80 and not first & 1:
                    offset = base_offset + ((first & 0x7E) >> 1) + (second << 6)
                    position += 2
                else:
                    offset, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
                    offset += base_offset

                first = body[position]
                if first == _NULL:
                    key = None
                    position += 1
                elif (length := lengths[first]) < FAR:
                    key = body[position + 1 : position + length]
                    position += length
                else:
                    key, position = read_bytes(body, position, end)

                first = body[position]
                if (length := lengths[first]) < FAR:
                    value: bytes | None = body[position + 1 : position + length]
                    position += length
                elif first == _NULL:
                    value = None
                    position += 1
                elif (second := body[position + 1]) < 0x80 and not first & 1:
                    length = ((first & 0x7E) >> 1) + (second << 6)
                    position += 2
                    value = body[position : position + length]
                    position += length
                else:
                    value, position = read_bytes(body, position, end)

                if body[position]:
                    headers, position = read_headers(body, position, end)
                    # No byte is read behind headers: here alone the end of the batch is not found by an IndexError.
                    if position > total:
                        raise IndexError
                else:
                    headers = ()
                    position += 1
                if position != end:
                    raise CorruptRecord(f"the fields of record {index} end {position - end} bytes beyond its length")
                if append_time is not None:
                    timestamp = append_time
                append(new(record_class, (topic, partition, offset, timestamp, timestamp_type, key, value, headers)))
        except IndexError:
            raise CorruptRecord(f"the batch ends within a record; it should hold {self.batch.count}") from None
        finally:
            self._index += len(taken) - already_taken
            self._position = position


class DecodedRecords:
    """The records of a batch that were all decoded, without the first ones, which were taken.

    error: what is wrong with the record behind the last one, if something is.
    """

    __slots__ = ("_error", "_records", "batch")

    def __init__(
        self,
        batch: RecordBatch | LegacyBatch,
        records: list[ConsumerRecord],
        error: CorruptRecord | None = None,
    ) -> None:
        self.batch = batch
        self._records = records
        self._error = error

    @property
    def is_done(self) -> bool:
        """Whether all records were taken, and nothing is wrong with the batch."""
        return not self._records and self._error is None

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the next records, at most `limit`. Raises CorruptRecord behind the last good one."""
        if not self._records and self._error is not None:
            raise self._error
        taken = self._records[:limit]
        del self._records[:limit]
        return taken


def legacy_records(topic_partition: TopicPartition, batch: LegacyBatch) -> DecodedRecords:
    """Decode the records of a batch of format 0 or 1 at once."""
    topic, partition = topic_partition
    timestamp_type = batch.timestamp_type
    records: list[ConsumerRecord] = []
    try:
        for offset, timestamp, key, value, headers in batch.records():
            records.append(ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, headers))
    except CorruptRecord as error:
        return DecodedRecords(batch, records, error)
    return DecodedRecords(batch, records)
