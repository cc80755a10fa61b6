"""The first numbers of a frame, read from its bytes: of the size prefix, and of a request's header.

Read for every request, by the FrameReader and by `protocol.headers`, on the thread that received the frame. Pure.
The compiled build takes this module from `native/` (decisions/0009-compiled-build.md).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

_INT32: Final = Struct(">i")
_REQUEST_START: Final = Struct(">hhih")


def frame_size(received: bytes, position: int) -> int:
    """Return the size prefix at a position of which four bytes are there."""
    size: int = _INT32.unpack_from(received, position)[0]
    return size


def request_start(frame: bytes) -> tuple[int, int, int, int]:
    """Return API key, version, correlation id and the client id's length, of a frame of at least ten bytes."""
    return _REQUEST_START.unpack_from(frame)
