"""The four codecs: round trips, what other implementations write, damage, and bombs."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
import zlib
from typing import Any

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.compression import (
    PIECE_BYTES,
    XERIAL_HEADER,
    Codec,
    _decompress_plain_lz4,
    compress,
    decompress,
    decompressed_pieces,
)
from barnabas.records.errors import CorruptRecord, DecompressedTooLarge, TooManyPieces
from barnabas.records.xxhash32 import compress_lz4_magic_0, decompress_lz4_magic_0, xxhash32

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b'{"flight": %d, "carrier": "UA", "delay": %d}' % (i, i * 7919 % 61) for i in range(3000))


@given(st.sampled_from(list(Codec)), st.binary(max_size=200_000))
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, bytearray(data))), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "encode", "decode"),
    [
        (Codec.GZIP, aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        (Codec.SNAPPY, aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        (Codec.LZ4, aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        (Codec.ZSTD, aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    ],
)
def test_another_implementation_reads_ours_and_we_read_its(codec: Codec, encode, decode) -> None:  # type: ignore[no-untyped-def]
    assert bytes(decode(compress(codec, TEXT))) == TEXT
    assert decompress(codec, bytes(encode(TEXT))) == TEXT


@pytest.mark.parametrize("level", [None, 1, 9])
def test_lz4_frame_has_independent_blocks_and_no_content_checksum(level: int | None) -> None:
    frame = compress(Codec.LZ4, TEXT, level)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    version, independent, content_checksum = frame[4] >> 6, frame[4] >> 5 & 1, frame[4] >> 2 & 1
    assert (version, independent, content_checksum) == (1, 1, 0)
    assert frame[6] == xxhash32(frame[4:6]) >> 8 & 0xFF


def test_lz4_stores_what_compression_would_make_larger() -> None:
    noise = random.Random(1).randbytes(1 << 16)
    for data in (noise, noise + bytes(1 << 16), bytes(1 << 16) + noise[:1000], b"a"):
        frame = compress(Codec.LZ4, data)
        # The header, the end mark, and the size of each block.
        assert len(frame) <= 7 + 4 + 2 * 4 + len(data)
        assert bytes(cramjam.lz4.decompress(frame)) == bytes(aiokafka_codec.lz4_decode(frame)) == data
        assert decompress(Codec.LZ4, frame) == data


def plain_lz4(data: bytes, stored_blocks: tuple[int, ...] = ()) -> bytes:
    """A frame as Java and librdkafka write it. stored_blocks: the numbers of the blocks that are not compressed."""
    frame = b"\x04\x22\x4d\x18\x60\x40\x82"
    for number, start in enumerate(range(0, len(data), 1 << 16)):
        block = data[start : start + (1 << 16)]
        if number in stored_blocks:
            frame += (len(block) | 1 << 31).to_bytes(4, "little") + block
        else:
            compressed = bytes(cramjam.lz4.compress_block(block, store_size=False))
            frame += len(compressed).to_bytes(4, "little") + compressed
    return frame + bytes(4)


@pytest.mark.parametrize("data", [b"", b"a", TEXT, TEXT[: 1 << 16], bytes(1 << 18)])
def test_lz4_of_java_is_read_block_by_block(data: bytes) -> None:
    for stored_blocks in ((), (0,), (1,)):
        frame = plain_lz4(data, stored_blocks)
        assert decompress(Codec.LZ4, frame) == data
        # The limit may be the size, and the frame may be a part of a buffer.
        assert _decompress_plain_lz4(memoryview(b"before" + frame)[6:], len(data)) == data
        if data:
            with pytest.raises(DecompressedTooLarge):
                decompress(Codec.LZ4, frame, len(data) - 1)


@given(st.data())
def test_lz4_read_block_by_block_is_what_the_frame_holds(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=50)) * data.draw(st.sampled_from((1, 3, 3000)))
    frame = bytearray(plain_lz4(content, data.draw(st.sampled_from(((), (0,), (1,))))))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    frame = frame[: data.draw(st.sampled_from((len(frame), len(frame), len(frame) - 1, 8)))]
    frame += data.draw(st.sampled_from((b"", b"", b"\x00", bytes(frame))))
    found = _decompress_plain_lz4(bytes(frame), 1 << 20)
    if found is not None:
        assert found == bytes(cramjam.lz4.decompress(bytes(frame)))


def test_snappy_accepts_a_raw_block_and_concatenated_streams() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    stream = compress(Codec.SNAPPY, TEXT)
    assert stream[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Codec.SNAPPY, stream + stream) == TEXT + TEXT


def test_gzip_accepts_several_members() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


class CountedZlib:
    """Counts the bytes that are given to zlib, and those that it copies because a member does not use them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given = self.copied = 0
        real = zlib.decompressobj

        class Member:
            def __init__(member, *arguments: Any) -> None:  # noqa: N805
                member.real = real(*arguments)

            def decompress(member, data: Any, *limits: int) -> bytes:  # noqa: N805
                self.given += len(data)
                found: bytes = member.real.decompress(data, *limits)
                self.copied += len(member.real.unused_data) + len(member.real.unconsumed_tail)
                return found

            def __getattr__(member, name: str) -> Any:  # noqa: N805
                return getattr(member.real, name)

        monkeypatch.setattr(zlib, "decompressobj", Member)


@pytest.mark.parametrize("content", [b"", b"a", TEXT[:3000]])
def test_a_member_of_gzip_costs_its_own_bytes(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest was copied for each member: 1 MB of empty members took 11 s."""
    data = gzip.compress(content) * 2000
    counted = CountedZlib(monkeypatch)
    assert decompress(Codec.GZIP, data) == content * 2000
    # Each member is given 512 bytes at least, and the first one everything.
    most = 3 * len(data) + 2000 * 512
    assert counted.given <= most
    assert counted.copied <= most
    assert b"".join(decompressed_pieces(Codec.GZIP, data)) == content * 2000


@pytest.mark.parametrize("rest", [b"x", bytes(18), bytes(19), b"longer than an empty member", b"\x1f\x8b" * 20])
def test_bytes_behind_a_member_of_gzip_are_ignored_as_java_does(rest: bytes) -> None:
    data = gzip.compress(TEXT)
    assert decompress(Codec.GZIP, data + rest) == TEXT
    assert decompress(Codec.GZIP, data + data + rest) == TEXT + TEXT
    assert b"".join(decompressed_pieces(Codec.GZIP, data + data + rest)) == TEXT + TEXT
    # What begins as a member must be one.
    with pytest.raises(CorruptRecord):
        decompress(Codec.GZIP, data + data[:100])


def test_short_blocks_of_lz4_are_left_to_the_codec() -> None:
    """Reading 20 MB of empty blocks one by one took 47 s."""
    header, empty = b"\x04\x22\x4d\x18\x60\x40\x82", b"\x01\x00\x00\x00\x00"
    assert _decompress_plain_lz4(header + empty + bytes(4), 100) == b""
    frame = header + empty * 1000 + bytes(4)
    assert _decompress_plain_lz4(frame, 100) is None
    assert decompress(Codec.LZ4, frame) == b""


def test_pieces_are_bounded() -> None:
    members = gzip.compress(b"") * 100
    blocks = XERIAL_HEADER + b"\x00\x00\x00\x01\x00" * 100
    for codec, data in ((Codec.GZIP, members), (Codec.SNAPPY, blocks)):
        assert decompress(codec, data, 10, 100) == b""
        assert b"".join(decompressed_pieces(codec, data, 10, 100)) == b""
        with pytest.raises(TooManyPieces):
            decompress(codec, data, 10, 99)
        with pytest.raises(TooManyPieces):
            list(decompressed_pieces(codec, data, 10, 99))


@given(st.sampled_from(list(Codec)), st.data())
def test_pieces_are_what_decompress_returns(codec: Codec, data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=50)) * data.draw(st.sampled_from((1, 3, 3000)))
    stored = bytearray(compress(codec, content))
    for _ in range(data.draw(st.integers(0, 3)) if stored else 0):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    stored = stored[: data.draw(st.sampled_from((len(stored), len(stored), 5)))]
    limit = data.draw(st.sampled_from((1 << 20, len(content), 10)))
    expected = found = None
    with contextlib.suppress(CorruptRecord):
        expected = decompress(codec, stored, limit)
    with contextlib.suppress(CorruptRecord):
        found = b"".join(decompressed_pieces(codec, stored, limit))
    # Only `decompress` without a codec has no limit: the bytes are there already.
    assert found == expected


@pytest.mark.parametrize("codec", list(Codec))
def test_a_large_output_comes_in_parts(codec: Codec) -> None:
    data = compress(codec, bytes(8 << 20))
    tracemalloc.start()
    try:
        parts = sum(len(part) <= PIECE_BYTES for part in decompressed_pieces(codec, data))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert parts >= 8
    if codec:
        with pytest.raises(DecompressedTooLarge):
            list(decompressed_pieces(codec, data, (8 << 20) - 1))


@pytest.mark.parametrize("codec", COMPRESSING)
def test_output_beyond_the_limit_is_refused(codec: Codec) -> None:
    data = compress(codec, TEXT)
    assert decompress(codec, data, len(TEXT)) == TEXT
    for limit in (0, 1, len(TEXT) - 1):
        with pytest.raises(CorruptRecord):
            decompress(codec, data, limit)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_costs_no_more_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_length_inside_the_data_allocates_nothing() -> None:
    claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00" * 20
    tracemalloc.start()
    try:
        for data in (claims_4_gib, compress(Codec.SNAPPY, b"x")[:16] + b"\x7f\xff\xff\xff" + claims_4_gib):
            with pytest.raises(CorruptRecord):
                decompress(Codec.SNAPPY, data, 1 << 40)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_cut_is_corrupt(codec: Codec) -> None:
    data = compress(codec, TEXT[:500])
    for end in range(len(data)):
        if codec == Codec.SNAPPY and end == 16:
            assert decompress(codec, data[:end]) == b""  # an xerial stream of no blocks is a stream
            continue
        with pytest.raises(CorruptRecord):
            decompress(codec, data[:end])


@given(st.sampled_from(COMPRESSING), st.data())
def test_damage_raises_nothing_else(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, TEXT[:2000]))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptRecord):
        decompress(codec, damaged, 1 << 20)


@given(st.sampled_from(COMPRESSING), st.binary(max_size=300))
def test_garbage_raises_nothing_else(codec: Codec, garbage: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        decompress(codec, garbage, 1 << 20)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash32_golden_values(data: bytes, digest: int) -> None:
    assert xxhash32(data) == digest


def test_lz4_of_magic_0_has_the_wrong_checksum_kafka_expects() -> None:
    right = compress(Codec.LZ4, TEXT)
    wrong = compress_lz4_magic_0(TEXT)
    assert right[6] == xxhash32(right[4:6]) >> 8 & 0xFF
    assert wrong[6] == xxhash32(right[:6]) >> 8 & 0xFF
    assert wrong[:6] + wrong[7:] == right[:6] + right[7:]
    with pytest.raises(CorruptRecord):
        decompress(Codec.LZ4, wrong)
    assert decompress_lz4_magic_0(wrong) == TEXT
    assert decompress_lz4_magic_0(right) == TEXT


def test_lz4_header_checksums_of_apache_kafka() -> None:
    """Seen in a Fetch v1 answer of Apache Kafka 3.9: a frame header of message format 0, and the right checksum."""
    header = bytes.fromhex("04224d186040")
    assert xxhash32(header) >> 8 & 0xFF == 0x1A
    assert xxhash32(header[4:]) >> 8 & 0xFF == 0x82


def test_codec_names() -> None:
    assert Codec.from_name("zstd") is Codec.ZSTD
    with pytest.raises(ValueError, match="known are none, gzip, snappy, lz4, zstd"):
        Codec.from_name("brotli")
