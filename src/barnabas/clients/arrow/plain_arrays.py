"""Arrow arrays over the buffers of numpy arrays, and columns of one repeated number or text.

Called by `decoder`, `fetched_batches` and `record_tables`. Pure functions; no state, no lock.

`pa.array` and `pa.scalar` ask whether their argument is an object of pandas, and the first of these questions imports
pandas: a quarter of a second of CPU, about as much as decoding 200,000 records. Nothing here asks it. The functions
copy nothing either, except a mask into bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

_OFFSET_BYTES = 4
"""The size of an offset into the bytes of a string or binary array."""


def numbers(values: Numbers, arrow_type: pa.DataType, missing: Mask | None = None) -> pa.Array:
    """Return numbers as an array of `arrow_type`, whose items have as many bytes. `missing`: those that are NULL."""
    contiguous = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow_type, len(values), [validity(missing), pa.py_buffer(contiguous)])


def validity(missing: Mask | None) -> pa.Buffer | None:
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
