"""What an old client gets is what converting everything at once gives, however little is converted at a time."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import READ_BYTES, LazyDownConversionRecords
from barnabas.records.legacy_records import encode_message_set, legacy_batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from barnabas.transport.channel.send import Send
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer
from tests.support.down_conversion import down_convert
from tests.support.memory_network import MemoryNetwork


class BytesFile:
    """A file in memory that counts its holders and the bytes of its largest read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.holders = 0
        self.largest_read = 0

    def prefetch(self, position: int, size: int) -> None:
        pass

    def is_cached(self, position: int) -> bool:
        return True

    def fileno(self) -> int:
        raise AssertionError("converted records are never sent as a file")

    def retain(self) -> None:
        self.holders += 1

    def release(self) -> None:
        self.holders -= 1
        assert self.holders >= 0

    def read(self, position: int, size: int) -> bytes:
        self.largest_read = max(self.largest_read, size)
        return self.content[position : position + size]

    def range(self, position: int = 0, size: int | None = None) -> FileRecords:
        self.retain()
        return FileRecords(self, position, len(self.content) - position if size is None else size)


def stored(seed: int, batch_count: int, codecs: tuple[Codec, ...], records_of_batch: int = 8) -> bytes:
    """Batches as a log has them: of all formats, with markers among them."""
    chance = random.Random(seed)
    data, offset = b"", 0
    for _ in range(batch_count):
        codec = chance.choice(codecs)
        count = chance.randrange(1, records_of_batch)
        kind = chance.random()
        if kind < 0.15:
            marker = RecordBatchBuilder(base_offset=offset, producer_id=1, producer_epoch=0, is_control=True)
            marker.append(5, b"\0\0\0\1", b"\0\0\0\0\0\0")
            data, offset = data + marker.build(), offset + 1
        elif kind < 0.3:
            rows = [Record(offset + n, 1000 + n, b"k", b"old") for n in range(count)]
            data, offset = data + encode_message_set(chance.choice((0, 1)), rows, codec), offset + count
        else:
            builder = RecordBatchBuilder(codec, base_offset=offset)
            for n in range(count):
                builder.append(1000 + n, chance.choice((None, b"key")), chance.randbytes(chance.randrange(40)))
            data, offset = data + builder.build(), offset + count
    return data


def drain(records: LazyDownConversionRecords) -> bytes:
    promised = len(records)
    data = records.read()
    assert len(data) == promised
    records.release()
    return data


@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([0, 1]), st.integers(0, 60), st.integers(0, 30))
def test_as_much_as_was_promised_of_what_all_at_once_gives(
    seed: int, batch_count: int, magic: int, first_offset: int, cut: int
) -> None:
    data = stored(seed, batch_count, (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    file = BytesFile(data[: len(data) - cut])
    expected = down_convert(file.content, magic, first_offset)
    found = drain(LazyDownConversionRecords(file.range(), magic, first_offset))
    assert file.holders == 0
    common = min(len(expected), len(found))
    assert found[:common] == expected[:common]
    # Behind what was converted a client must not find a whole message.
    assert [each.last_offset for each in legacy_batches(found)] == [
        each.last_offset for each in legacy_batches(expected[: len(found)])
    ]
    if expected:
        assert len(list(legacy_batches(found))) >= 1, "a client must be able to go on"


def test_many_records_are_converted_step_by_step() -> None:
    builder = RecordBatchBuilder()
    for number in range(2000):
        builder.append(number, b"key", b"%d" % number)
    data = builder.build() * 3
    counted: list[tuple[int, int, int]] = []
    file = BytesFile(data)
    ticks = itertools.count()
    records = LazyDownConversionRecords(file.range(), 1, 0, lambda *each: counted.append(each), ticks.__next__)
    ((count, steps, size),) = counted
    assert (count, size) == (2000, len(records._ready)), (
        "the first batch at once, to know the size and whether it can be converted"
    )
    assert steps > 5, "in small steps, each of which takes its time"
    pieces = []
    while len(records):
        pieces.append(len(records.next_piece()))
    assert max(pieces[1:-1]) < 256 * 60
    assert sum(pieces) == max(len(data), pieces[0])


def test_a_large_range_is_read_in_pieces() -> None:
    data = stored(1, 400, (Codec.NONE,), records_of_batch=40)
    assert len(data) > READ_BYTES
    file = BytesFile(data)
    drain(LazyDownConversionRecords(file.range(), 1, 0))
    assert file.largest_read == READ_BYTES


def test_a_batch_larger_than_a_piece() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, None, bytes(3 * READ_BYTES))
    file = BytesFile(builder.build())
    (message,) = legacy_batches(drain(LazyDownConversionRecords(file.range(), 1, 0)))
    assert message.key_and_value()[1] == bytes(3 * READ_BYTES)


def test_zstd_is_an_error_where_it_comes_first_and_the_end_where_it_comes_later() -> None:
    plain, packed = stored(3, 1, (Codec.NONE,)), stored(3, 1, (Codec.ZSTD,))
    with pytest.raises(UnsupportedCodec):
        LazyDownConversionRecords(BytesFile(packed + plain).range(), 1, 0)
    found = drain(LazyDownConversionRecords(BytesFile(plain + packed).range(), 1, 0))
    assert b"".join(bytes(found[m.position : m.end]) for m in legacy_batches(found)) == down_convert(plain, 1)


def test_damage_is_an_error_where_it_comes_first() -> None:
    plain = stored(3, 1, (Codec.NONE,))
    with pytest.raises(CorruptRecord):
        LazyDownConversionRecords(BytesFile(plain[:57] + b"\0\0\0\x7f" + plain[61:]).range(), 1, 0)


def test_nothing_but_markers_is_a_message_that_is_too_long() -> None:
    marker = RecordBatchBuilder(producer_id=1, producer_epoch=0, is_control=True)
    marker.append(5, b"\0\0\0\1", b"\0\0\0\0\0\0")
    found = drain(LazyDownConversionRecords(BytesFile(marker.build()).range(), 1, 0))
    assert found == b"\xff" * 8 + b"\0\0\0\x3d"
    assert list(legacy_batches(found)) == []


def test_no_whole_batch_is_nothing() -> None:
    assert drain(LazyDownConversionRecords(BytesFile(stored(3, 1, (Codec.NONE,))[:-1]).range(), 1, 0)) == b""


@pytest.mark.parametrize("window", [1 << 20, 1000])
def test_sent_between_other_pieces(window: int) -> None:
    data = stored(7, 200, (Codec.NONE, Codec.LZ4))
    file = BytesFile(data)
    server, client = MemoryNetwork().pair(window)
    send = Send(PlaintextTransportLayer(server, portable_file_sends=True))
    expected = b"head" + drain(LazyDownConversionRecords(file.range(), 1, 0)) + b"tail" + b"next answer"
    send.add([b"head", LazyDownConversionRecords(file.range(), 1, 0), b"tail"])
    send.add([b"next answer"])
    received, turns = b"", 0
    while not send.write():
        received += client.take()
        send.writable = True
        turns += 1
    assert received + client.take() == expected
    assert turns > 5, "other connections have their turn between steps"
    assert (file.holders, send.unsent) == (0, 0)


def test_dropped_before_it_was_sent() -> None:
    file = BytesFile(stored(7, 20, (Codec.NONE,)))
    server, _ = MemoryNetwork().pair(10)
    send = Send(PlaintextTransportLayer(server, portable_file_sends=True))
    send.add([b"head", LazyDownConversionRecords(file.range(), 1, 0), b"tail"])
    send.write()
    send.discard()
    assert (file.holders, send.unsent) == (0, 0)
