"""Makes Arrow arrays without pandas: of numpy's buffers, of one repeated value, of pieces of one buffer, of headers.

Called by `decoder`, `fetched_batches`, `record_tables` and `table_columns`. A `Gatherer` belongs to the thread that
made it; all else are pure functions; no lock.

`pa.array` and `pa.scalar` ask whether their argument is an object of pandas, and the first of these questions imports
pandas: a quarter of a second of CPU, about as much as decoding 200,000 records. Nothing here asks it, unless a header
has a key that is not UTF-8. Arrays of numpy's buffers are not copied either, except a mask into bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.clients.arrow.headers import HeaderPositions
from barnabas.clients.arrow.record_fields import Pieces
from barnabas.clients.arrow.varints import Bytes, Integers
from barnabas.records.compression import Buffer

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

_OFFSET_BYTES = 4
"""The size of an offset into the bytes of a string or binary array."""

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""The type of the headers column, which is that of Spark's Kafka source."""

_INLINE_BYTES = 12
"""The longest entry that a binary_view holds itself, after its length. Longer ones are references."""
_INLINE_ITEM = np.dtype(f"V{_INLINE_BYTES}")
_INLINE_MASKS = (
    np.where(np.arange(_INLINE_BYTES) < np.arange(_INLINE_BYTES + 1)[:, None], 0xFF, 0)
    .astype(np.uint8)
    .view(_INLINE_ITEM)[:, 0]
)
"""A mask for each length: item n keeps the first n bytes."""
_MOST_BYTES = (1 << 31) - 1
"""The most bytes of one array of type `binary`."""


def numbers(values: Numbers, arrow_type: pa.DataType, missing: Mask | None = None) -> pa.Array:
    """Return numbers as an array of `arrow_type`, whose items have as many bytes. `missing`: those that are NULL."""
    contiguous = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow_type, len(values), [_validity(missing), pa.py_buffer(contiguous)])


def _validity(missing: Mask | None) -> pa.Buffer | None:
    """Return the bitmap of the rows that are not missing; None when no row is."""
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))


def empty_array(arrow_type: pa.DataType) -> pa.Array:
    """Return an array of strings or binaries without rows."""
    return pa.Array.from_buffers(arrow_type, 0, [None, pa.py_buffer(bytes(_OFFSET_BYTES)), pa.py_buffer(b"")])


def repeated_text(text: str, count: int) -> pa.Array:
    """Return a column of strings with the same text in each of `count` rows."""
    encoded = text.encode()
    offsets = np.array([0, len(encoded)], np.int32)
    one = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(encoded)])
    return pa.repeat(one[0], count)


def repeated_number(value: int, count: int) -> pa.Array:
    """Return a column of 32-bit numbers with the same value in each of `count` rows."""
    return numbers(np.full(count, value, np.int32), pa.int32())


class Gatherer:
    """A collector of pieces of one buffer. `array` is `data`; positions must lie inside.

    Pieces of one size are copied by numpy as items of that size. Pieces of several sizes become an Arrow `binary_view`
    array whose views point into the buffer, and one cast to `binary` gathers them in C++. Either way the result owns
    its memory, so the buffer may be reused afterwards.
    """

    def __init__(self, data: Buffer, array: Bytes) -> None:
        self._data = data
        self._array = array

    def binary(self, pieces: Pieces) -> pa.Array:
        """Return the pieces as a binary array; a negative length is NULL."""
        positions, lengths = pieces
        count = len(positions)
        size = int(lengths[0]) if count else 0
        if size > 0 and count * size <= _MOST_BYTES and not (lengths != size).any():
            return self._of_one_size(positions, size)
        sizes = np.maximum(lengths, 0)
        views = np.zeros((count, 4), np.uint32)
        views[:, 0] = sizes
        # A long view holds prefix, buffer number, position. The cast reads only the last two, so the prefix stays 0.
        views[:, 3] = positions
        short = np.nonzero(sizes <= _INLINE_BYTES)[0]
        if 0 < len(short) < count:
            views[short, 1:] = self._inlined(positions[short], sizes[short])
        elif len(short):
            views[:, 1:] = self._inlined(positions, sizes)
        buffers = [_validity(lengths < 0), pa.py_buffer(views), pa.py_buffer(self._data)]
        pointing = pa.Array.from_buffers(pa.binary_view(), count, buffers)
        return pointing.cast(pa.binary())

    def _of_one_size(self, positions: Integers, size: int) -> pa.Array:
        content = self._windows(np.dtype(f"V{size}"))[positions]
        offsets = np.arange(len(positions) + 1, dtype=np.int32) * np.int32(size)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.binary(), len(positions), buffers)

    def _windows(self, item: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the items that begin at each byte of the buffer: a view, in which they overlap."""
        return np.ndarray((len(self._array) - item.itemsize + 1,), item, self._array, strides=(1,))

    def _inlined(self, positions: Integers, sizes: Integers) -> npt.NDArray[np.uint32]:
        """Return twelve bytes a row: the short pieces, filled with zeros."""
        last = len(self._array) - _INLINE_BYTES
        if last >= 0 and int(positions.max()) <= last:
            content = self._windows(_INLINE_ITEM)[positions].view(np.uint32)
        else:
            # Near the end of the buffer. The index stops at the last byte, and the mask removes the repetitions.
            places = np.minimum(positions[:, None] + np.arange(_INLINE_BYTES), len(self._array) - 1)
            content = self._array[places].reshape(-1).view(np.uint32)
        content &= _INLINE_MASKS[sizes].view(np.uint32)
        return content.reshape(-1, _INLINE_BYTES // 4)

    def headers(self, located: HeaderPositions) -> pa.Array:
        """Return the header lists, of HEADERS_TYPE."""
        if not len(located.key_positions):
            return empty_headers(len(located.list_offsets) - 1)
        keys = self.binary(Pieces(located.key_positions, located.key_lengths))
        values = self.binary(Pieces(located.value_positions, located.value_lengths))
        return _header_lists(located.list_offsets.astype(np.int32), _as_text(keys), values)


def empty_headers(count: int) -> pa.Array:
    """Return `count` empty header lists, because a NULL list would cost Spark eleven times as much a row."""
    return _header_lists(np.zeros(count + 1, np.int32), empty_array(pa.string()), empty_array(pa.binary()))


def _as_text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Any client may write a key that is not UTF-8. As in Java, its bad bytes become U+FFFD.
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def _header_lists(list_offsets: npt.NDArray[np.int32], keys: pa.Array, values: pa.Array) -> pa.Array:
    items = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(numbers(list_offsets, pa.int32()), items, type=HEADERS_TYPE)
