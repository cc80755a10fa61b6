"""The first numbers of a frame, read from its bytes: native: each is a load and a swap of its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import read_i16_be, read_i32_be

if TYPE_CHECKING:
    from mypy_extensions import i64


def frame_size(received: bytes, position: i64) -> i64:
    """Return the size prefix at a position of which four bytes are there."""
    return i64(read_i32_be(received, position))


def request_start(frame: bytes) -> tuple[i64, i64, i64, i64]:
    """Return API key, version, correlation id and the client id's length, of a frame of at least ten bytes."""
    return (
        i64(read_i16_be(frame, 0)),
        i64(read_i16_be(frame, 2)),
        i64(read_i32_be(frame, 4)),
        i64(read_i16_be(frame, 8)),
    )
