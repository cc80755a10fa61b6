"""The layout of records that are laid out alike: found in one record, and kept for the next batches of an answer.

Found by BatchRecords, kept by AnswerBatches, read by `record_run` and `even_batches`; owned by the consumer's thread;
no lock.

Records of one shape have the same size, keys and values of the same sizes, timestamps and offsets of the same number of
bytes, and no headers. So every field stands at the same place in each of them, and the bytes that say how long the
fields are, are the same. A record gives its shape. For example 0e 00 00 00 02 61 01 00 (see `batch_records`) is 8 bytes
long: the length 0e at place 0, one byte each of timestamp and offset at 2 and 3, the lengths 02 and 01 (null) of key
and value at 4 and 6, the key at 5, and the number of headers, 00, at 7.

`RunShapes` keeps the shapes for the next batches of the answer. A batch of 16 KiB holds 15 records of 1 KB: finding the
shape again in each batch would take as long as decoding the records one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from barnabas.records.compression import Buffer
from barnabas.records.varint import encode_zigzag

_STRUCTS: Final = 256
"""The structs that are kept, one for each shape and number of records. A producer chooses both, so there is a limit."""
ONE_BYTE_DELTAS: Final = 1 << 6
"""Offset deltas below this one take one byte."""
_TWO_BYTE_DELTAS: Final = 1 << 13
_LONGEST_DELTA: Final = 2
"""Timestamps and offsets of more bytes are left to BatchRecords."""
_FIRST_DELTA: Final = (0, 0, ONE_BYTE_DELTAS, _TWO_BYTE_DELTAS)
"""Size of an offset in bytes -> the first offset delta that takes so many."""
_NO_HEADERS: Final = b"\x00"
_LESSONS: Final = 8
_MOST_OTHER_SIZES: Final = 4
_OFFSETS: Final = tuple(encode_zigzag(delta) for delta in range(_TWO_BYTE_DELTAS))
"""Offset delta -> its one or two bytes."""
OFFSET_BYTES: Final = (bytes(offset[0] for offset in _OFFSETS), bytes(offset[-1] for offset in _OFFSETS))
"""Place of a byte in an offset -> offset delta -> the byte. The second is not used where an offset has only one."""


class DecodedRecord(NamedTuple):
    """A record without headers that was decoded: where it begins in the batch's body, its key and its value."""

    start: int
    key: bytes | None
    value: bytes | None


class FixedField(NamedTuple):
    """A field that has the same bytes in each record of a shape, at this place in the record."""

    place: int
    content: bytes


class PartSizes(NamedTuple):
    """The sizes of a record's parts: what is before the key, the key, the length of the value, the value.

    None for a key or value that is null.
    """

    before_key: int
    key: int | None
    value_length: int
    value: int | None


class RunShape(NamedTuple):
    """The layout of the records of a run. Places are counted from the beginning of a record; sizes are in bytes.

    `fixed_fields`: the three lengths and the number of headers. `fixed_bytes`: the same, a field for each byte.
    `sizes`: those of the parts around key and value. `timestamp_size`, `offset_size`: 1 or 2.
    `columns`: the fixed bytes, then the bytes of the offsets, each as the slice that takes it from all records.
    `columns_by_count`: what these slices of so many first records of a batch are, where they were made already.
    `structs_by_count`: what takes the keys and values out of so many records, where it was made already.
    """

    size: int
    fixed_fields: tuple[FixedField, ...]
    fixed_bytes: tuple[FixedField, ...]
    timestamp_place: int
    timestamp_size: int
    offset_place: int
    offset_size: int
    sizes: PartSizes
    columns: tuple[slice, ...]
    columns_by_count: dict[int, list[bytes]]
    structs_by_count: dict[int, Struct]

    @property
    def has_keys(self) -> bool:
        """Whether the records have keys."""
        return self.sizes.key is not None

    @property
    def has_values(self) -> bool:
        """Whether the records have values."""
        return self.sizes.value is not None

    def keys_and_values(self, records: Buffer, count: int) -> Iterable[bytes]:
        """Return the key and the value of each of `count` records, one after the other, as far as there are some."""
        if count > ONE_BYTE_DELTAS:
            # Runs of so many records have all kinds of lengths, and a struct of each would cost more than it saves.
            return chain.from_iterable(_keys_and_values(self.sizes, 1).iter_unpack(records))
        struct = self.structs_by_count.get(count)
        if struct is None:
            struct = self.structs_by_count[count] = _keys_and_values(self.sizes, count)
        return struct.unpack(records)

    def deltas_left(self, delta: int) -> int:
        """Return how many offset deltas from `delta` on have as many bytes as the shape says, none for another size."""
        first, end = _FIRST_DELTA[self.offset_size], _FIRST_DELTA[self.offset_size + 1]
        return end - delta if first <= delta else 0

    def begins_at(self, body: bytes, position: int, offset_delta: int) -> bool:
        """Return whether a record at `position` has this shape and this offset; its timestamp may have another size."""
        if self.deltas_left(offset_delta) <= 0:
            return False
        return body.startswith(_OFFSETS[offset_delta], position + self.offset_place) and all(
            body.startswith(content, position + place) for place, content in self.fixed_fields
        )

    def first_columns(self, count: int) -> list[bytes]:
        """Return the columns of the first `count` records of a batch, at most `deltas_left(0)`."""
        columns = self.columns_by_count.get(count)
        if columns is None:
            columns = self.columns_by_count[count] = [
                *(content * count for _, content in self.fixed_bytes),
                OFFSET_BYTES[0][:count],
            ]
        return columns


class RunShapes:
    """The shapes of the last runs of one answer: one for offset deltas of one byte, one for those of two.

    `of_one_byte`: the shape of a batch's first records, or None before the first run.
    `lessons`: how many more batches with few records may teach a shape. The shape of a few records pays only if the
    next batches have it, too.
    """

    __slots__ = ("_of_two_bytes", "_other_sizes", "lessons", "of_one_byte")

    def __init__(self) -> None:
        self.of_one_byte: RunShape | None = None
        self._of_two_bytes: RunShape | None = None
        self._other_sizes = 0
        self.lessons = _LESSONS

    def add(self, shape: RunShape) -> None:
        """Keep a shape, in place of an earlier one."""
        if shape.offset_size == 1:
            self.of_one_byte = shape
        else:
            self._of_two_bytes = shape

    @property
    def has_other_sizes(self) -> bool:
        """Whether the last few compressed batches held records of other sizes than `of_one_byte` says."""
        return self._other_sizes >= _MOST_OTHER_SIZES

    def note_size(self, *, is_expected: bool) -> None:
        """Note whether the records of a compressed batch had the size that `of_one_byte` says."""
        self._other_sizes = 0 if is_expected else self._other_sizes + 1

    def find(self, body: bytes, position: int, offset_delta: int) -> RunShape | None:
        """Return the shape of the record at `position`, if it is one of these, and its offset is the expected one."""
        shape = self.of_one_byte if offset_delta < ONE_BYTE_DELTAS else self._of_two_bytes
        return shape if shape is not None and shape.begins_at(body, position, offset_delta) else None


def shape_of(body: bytes, record: DecodedRecord) -> RunShape | None:
    """Return the shape of a record that is known to be well formed; None where its deltas are too long for a run."""
    start, key, value = record
    attributes = _behind_number(body, start)
    timestamp = attributes + 1
    offset = _behind_number(body, timestamp)
    key_length = _behind_number(body, offset)
    if offset - timestamp > _LONGEST_DELTA or key_length - offset > _LONGEST_DELTA:
        return None
    key_start = _behind_number(body, key_length)
    value_length = key_start + len(key or b"")
    value_start = _behind_number(body, value_length)
    headers = value_start + len(value or b"")
    size = headers + len(_NO_HEADERS) - start
    fields = (
        FixedField(0, body[start:attributes]),
        FixedField(key_length - start, body[key_length:key_start]),
        FixedField(value_length - start, body[value_length:value_start]),
        FixedField(headers - start, _NO_HEADERS),
    )
    fixed_bytes = tuple(
        FixedField(place + index, content[index : index + 1])
        for place, content in fields
        for index in range(len(content))
    )
    return RunShape(
        size,
        fields,
        fixed_bytes,
        timestamp - start,
        offset - timestamp,
        offset - start,
        key_length - offset,
        PartSizes(
            key_start - start,
            None if key is None else len(key),
            value_start - value_length,
            None if value is None else len(value),
        ),
        (*(slice(place, None, size) for place, _ in fixed_bytes), slice(offset - start, None, size)),
        {},
        {},
    )


def _behind_number(body: bytes, position: int) -> int:
    """Return the position behind the varint at `position`."""
    while body[position] & 0x80:
        position += 1
    return position + 1


@lru_cache(maxsize=_STRUCTS)
def _keys_and_values(sizes: PartSizes, count: int) -> Struct:
    """Return the struct of the keys and values of `count` records, without a field for a null."""
    key = "" if sizes.key is None else f"{sizes.key}s"
    value = "" if sizes.value is None else f"{sizes.value}s"
    return Struct("<" + f"{sizes.before_key}x{key}{sizes.value_length}x{value}{len(_NO_HEADERS)}x" * count)
