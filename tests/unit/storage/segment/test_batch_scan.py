"""Finding a batch in a file by few reads, wherever a read ends."""

from __future__ import annotations

import pytest

from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.segment.batch_scan import SEARCH_CHUNK_BYTES, find_batch

HEADER = 61


class Bytes:
    """A file in memory."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, position: int, size: int) -> bytes:
        return self.content[position : position + size]


def batch(base_offset: int, value: bytes) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(0, None, value)
    return base_offset.to_bytes(8, "big") + builder.build()[8:]


@pytest.mark.parametrize("left", range(HEADER + 2))
def test_a_batch_whose_header_the_first_read_cuts_is_found(left: int) -> None:
    """`left`: bytes of it that the first read still gets; a read of length and magic as zeros was taken for damage."""
    empty = len(batch(0, b""))
    first = batch(0, bytes(SEARCH_CHUNK_BYTES - left - empty))
    first = batch(0, bytes(SEARCH_CHUNK_BYTES - left - empty - (len(first) - (SEARCH_CHUNK_BYTES - left))))
    assert len(first) == SEARCH_CHUNK_BYTES - left
    second, third = batch(1, b"wanted"), batch(2, b"more" * 3000)
    file = Bytes(first + second + third)
    assert found(file, 1) == (len(first), len(second), 1, 1)
    assert found(file, 2) == (len(first + second), len(third), 2, 2)


def found(file: Bytes, offset: int) -> tuple[int, int, int, int] | None:
    place = find_batch(file, offset, 0, len(file.content))
    return None if place is None else (place.position, place.size, place.base_offset, place.last_offset)
