"""Bytes leave in order and once, whatever the socket takes; files are given back exactly once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import TruncatedFile
from barnabas.transport.channel.send import FILE_BYTES_PER_TURN, READ_INSTEAD_BYTES, Send
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from tests.support.memory_network import MemoryNetwork, MemorySocket


class CountedFile:
    """A file that counts its holders."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self.holders = 0

    def prefetch(self, position: int, size: int) -> None:
        pass

    def is_cached(self, position: int) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def retain(self) -> None:
        self.holders += 1

    def release(self) -> None:
        self.holders -= 1
        assert self.holders >= 0

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def range(self, position: int, size: int) -> FileRecords:
        self.retain()
        return FileRecords(self, position, size)


@pytest.fixture(scope="module")
def content() -> bytes:
    return os.urandom(3 * FILE_BYTES_PER_TURN)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Any:
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    opened = CountedFile(path)
    yield opened
    os.close(opened.fileno())


def connected(capacity: int = 10 << 20) -> tuple[Send, MemorySocket]:
    server, client = MemoryNetwork().pair(capacity)
    return Send(PlaintextTransportLayer(server, portable_file_sends=True)), client


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=12), st.integers(1, 30))
def test_pieces_arrive_in_order_through_any_window(pieces: list[bytes], window: int) -> None:
    send, client = connected(window)
    assert send.add(pieces) == send.unsent == sum(map(len, pieces))
    received = b""
    turns = 0
    while send.unsent:
        assert send.write() == (send.unsent == 0)
        received += client.take()
        send.writable = True
        turns += 1
        assert turns < 1000
    assert received == b"".join(pieces)


def test_answers_of_a_turn_leave_in_one_call() -> None:
    send, client = connected()
    send.add([b"head", b"body"])
    send.add([b"second"])
    assert send.write()
    assert client.peer is not None
    assert client.peer.sends == 1
    assert client.take() == b"headbodysecond"


def test_a_full_socket_says_so_and_goes_on_where_it_stopped() -> None:
    send, client = connected(capacity=5)
    send.add([b"abcdefgh"])
    assert not send.write()
    assert (send.writable, send.unsent) == (False, 3)
    assert not send.write()
    assert client.take() == b"abcde"
    send.writable = True
    assert send.write()
    assert client.take() == b"fgh"


def test_more_pieces_than_one_call_takes() -> None:
    send, client = connected()
    pieces = [b"%d," % n for n in range(3000)]
    send.add(pieces)
    assert send.write()
    assert client.take() == b"".join(pieces)


@pytest.mark.parametrize("window", [10 << 20, 100_000, 777])
def test_file_ranges_between_bytes(file: CountedFile, content: bytes, window: int) -> None:
    send, client = connected(window)
    small, large = READ_INSTEAD_BYTES - 1, READ_INSTEAD_BYTES + 1
    send.add([b"head", file.range(5, small), b"between", file.range(9, large), file.range(0, 1)])
    send.add([b"next answer", file.range(100, large)])
    received = bytearray()
    while not send.write():
        received += client.take()
        send.writable = True
    received += client.take()
    assert received == (
        b"head" + content[5 : 5 + small] + b"between" + content[9 : 9 + large] + content[:1]
        + b"next answer" + content[100 : 100 + large]
    )  # fmt: skip
    assert file.holders == 0


def test_a_long_file_leaves_in_turns(file: CountedFile, content: bytes) -> None:
    send, client = connected()
    send.add([b"head", file.range(0, 2 * FILE_BYTES_PER_TURN + 1)])
    assert not send.write()
    assert send.writable
    assert len(client.incoming) <= 4 + FILE_BYTES_PER_TURN
    assert not send.write()
    assert send.write()
    assert client.take() == b"head" + content[: 2 * FILE_BYTES_PER_TURN + 1]
    assert file.holders == 0


@pytest.mark.parametrize("size", [1000, READ_INSTEAD_BYTES + 1000])
def test_a_file_that_ends_early_is_an_error_and_is_released_once(file: CountedFile, content: bytes, size: int) -> None:
    send, _ = connected()
    send.add([b"head", file.range(len(content) - 500, size)])
    with pytest.raises(TruncatedFile):
        _write_everything(send)
    send.discard()
    assert (file.holders, send.unsent) == (0, 0)


def _write_everything(send: Send) -> None:
    while not send.write():
        pass


def test_discard_gives_half_sent_files_back(file: CountedFile) -> None:
    send, _ = connected(capacity=READ_INSTEAD_BYTES)
    send.add([file.range(0, READ_INSTEAD_BYTES * 2), b"x", file.range(0, 10)])
    assert not send.write()
    assert file.holders == 2
    send.discard()
    send.discard()
    assert file.holders == 0


def test_empty_ranges_are_released_at_once(file: CountedFile) -> None:
    send, _ = connected()
    assert send.add([b"", file.range(0, 0)]) == 0
    assert (file.holders, send.unsent) == (0, 0)


def test_a_range_that_was_read_already_leaves_with_the_rest(file: CountedFile, content: bytes) -> None:
    send, client = connected()
    file.retain()
    send.add([b"head", FileRecords(file, 0, 100, content[:100]), b"tail"])
    assert file.holders == 0
    assert send.write()
    assert client.take() == b"head" + content[:100] + b"tail"
