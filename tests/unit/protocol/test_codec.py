"""The notation and the generated codec, on small messages that show one rule each."""

from __future__ import annotations

import pickle
import threading
import traceback

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError, EncodeError
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import Float64, Int8, Int32, Int64, Records, Uuid, field


class Everything(MessageSpec, api=ApiKey.PRODUCE, versions="0-3", flexible="2+"):
    flag: bool = field("0+")
    name: str | None = field("0+", nullable="1+")
    numbers: list[Int32] = field("0+")
    names: list[str] | None = field("1+", nullable="1+", default=None)
    ids: list[Uuid] = field("1+", ignorable=True)
    ratio: Float64 = field("0+")
    part: Everything.Part = field("1+")
    maybe: Everything.Part | None = field("1+", nullable="1+", default=None)
    parts: list[Everything.Part] = field("0+")
    records: Records | None = field("0+", nullable="0+")
    epoch: Int64 = field("2+", tag=0, tagged="2+", default=-1)
    leader: Everything.Part | None = field("2+", tag=3, tagged="2+", default=None)
    limit: Int32 = field("3+", default=7)
    hint: Int8 = field("0-1", ignorable=True)

    class Part(StructSpec):
        key: Int32 = field("0+", default=-1)
        value: bytes = field("0+")


class Hollow(MessageSpec, api=ApiKey.PRODUCE, versions="0"):
    parts: list[Hollow.Nothing] = field("0+")

    class Nothing(StructSpec):
        later: Int32 = field("1+")


class Untouched(MessageSpec, api=ApiKey.PRODUCE, versions="0"):
    value: Int32 = field("0+")


def body(message: Message, version: int) -> bytes:
    return b"".join(message.encode(version))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_round_trip_from_any_buffer(version: int, kind: type) -> None:
    part = Everything.Part(5, b"abc")
    message = Everything(
        True, "n", [1, 2], ["a", ""], [bytes(range(16))], 0.5, part, part, [part, part], b"records", 9, part
    )
    raw = body(message, version)
    decoded, end = Everything.decode(kind(b"head" + raw), version, 4)
    assert (decoded, end) == (message, 4 + len(raw))
    assert isinstance(decoded.records, memoryview)
    assert type(decoded.ids[0]) is bytes
    assert type(decoded.part.value) is bytes


def test_lists_and_structs_by_default_are_not_shared() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    first.part.key = 5
    assert second == Everything(numbers=[], part=Everything.Part(-1))


def test_records_are_neither_copied_nor_looked_at() -> None:
    class OnDisk:
        def __len__(self) -> int:
            return 1000

    records = OnDisk()
    pieces = Everything(records=records).encode(2)
    assert [piece for piece in pieces if piece is records] == [records]
    assert len(pieces) == 3
    empty = memoryview(b"")
    assert any(piece is empty for piece in Everything(records=empty).encode(2))
    assert len(Everything(records=b"").encode(2)) == 1


def test_a_value_the_version_lacks_is_dropped_if_ignorable_and_refused_otherwise() -> None:
    assert body(Everything(name="", ids=[bytes(16)], hint=3), 2) == body(Everything(name="", ids=[bytes(16)]), 2)
    assert body(Everything(ids=[bytes(16)]), 0) == body(Everything(), 0)
    for refused in (
        Everything(limit=8),
        Everything(names=[]),
        Everything(part=Everything.Part(0)),
        Everything(epoch=5),
    ):
        with pytest.raises(EncodeError, match="Attempted to write a non-default"):
            refused.encode(0)


def test_null_only_where_the_version_has_it() -> None:
    assert Everything.decode(body(Everything(name=None), 1), 1)[0].name is None
    with pytest.raises(EncodeError):
        Everything(name=None).encode(0)
    raw = body(Everything(name=""), 0)
    assert raw[1:3] == b"\0\0"
    with pytest.raises(DecodeError, match="non-nullable field name"):
        Everything.decode(raw[:1] + b"\xff\xff" + raw[3:], 0)


@pytest.mark.parametrize("version", [1, 2])
def test_too_long_a_string_is_refused(version: int) -> None:
    body(Everything(name="x" * 32767), version)
    with pytest.raises(EncodeError):
        Everything(name="x" * 32768).encode(version)


@pytest.mark.parametrize(
    "wrong",
    [Everything(name=5), Everything(numbers=[2**31]), Everything(parts=[None]), Everything(name="\ud800")],  # type: ignore[arg-type, list-item]
)
def test_wrong_values_are_encode_errors(wrong: Everything) -> None:
    with pytest.raises(EncodeError, match="Everything v2"):
        wrong.encode(2)


def with_tags(*tags: tuple[int, bytes]) -> bytes:
    """Everything v2 with these tagged fields."""
    plain = body(Everything(), 2)
    return plain[:-1] + bytes([len(tags)]) + b"".join(bytes([tag, len(value)]) + value for tag, value in tags)


def test_unknown_tags_are_skipped_and_order_does_not_matter() -> None:
    epoch, leader = (0, (42).to_bytes(8)), (3, b"\0\0\0\1\2x\0")
    decoded, _ = Everything.decode(with_tags((9, b"later"), leader, epoch), 2)
    assert decoded == Everything(epoch=42, leader=Everything.Part(1, b"x"))
    assert Everything.decode(with_tags(epoch, epoch), 2)[0].epoch == 42


@pytest.mark.parametrize("tags", [((0, b"\0\0\0\0\0\0\0"),), ((0, bytes(9)),), ((3, b"\0\0\0\1\2x\0y"),)])
def test_a_known_tag_must_have_the_size_it_says(tags: tuple[tuple[int, bytes]]) -> None:
    """Otherwise a frame could have the same bytes decoded once per tag: work that grows with the square of its size."""
    with pytest.raises(DecodeError):
        Everything.decode(with_tags(*tags), 2)


def test_tags_are_left_out_when_default_and_written_by_rising_number() -> None:
    plain = body(Everything(), 2)
    assert body(Everything(leader=Everything.Part()), 2) == plain
    both = body(Everything(epoch=1, leader=Everything.Part(1)), 2)
    assert both == plain[:-1] + b"\2" + b"\0\x08" + (1).to_bytes(8) + b"\3\6" + b"\0\0\0\1\1\0"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_cut_is_a_decode_error(version: int) -> None:
    message = Everything(name="name", numbers=[1, 2], parts=[Everything.Part(1, b"abc")], records=b"records")
    raw = body(message, version)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            Everything.decode(raw[:end], version)


AS_JAVA_READS = {
    b"\xffbc": "\ufffdbc",
    b"a\xc3": "a\ufffd",
    b"\xc0\x80": "\ufffd\ufffd",
    b"\xe2\x82A": "\ufffdA",
    b"\xe0\x80\x80": "\ufffd\ufffd\ufffd",
    b"\xf0\x9f\x98": "\ufffd",
    b"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
    b"\xfb\xbf": "\ufffd\ufffd",
    b"\xed\xa0\x80": "\ufffd",  # a surrogate counts once, whole ...
    b"\xed\xbf": "\ufffd",  # ... or cut; for Python these are one for each byte
    b"\xed\xa0\x80\xed\xb0\x80!": "\ufffd\ufffd!",
    b"\xed\xa0A\xed\x9f\xbf\xff": "\ufffdA\ud7ff\ufffd",
}
"""What `new String(bytes, StandardCharsets.UTF_8)` made of them in Java 17."""


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("raw", "text"), AS_JAVA_READS.items())
def test_strings_that_are_not_utf8_are_read_as_in_java(raw: bytes, text: str, version: int, kind: type) -> None:
    """In every place of a message: a field, an element; and what follows is read on at the right byte."""
    placeholder = "p" * len(raw)
    message = Everything(name=placeholder, names=["good", placeholder, placeholder], parts=[Everything.Part(7, b"p")])
    data = b"before" + body(message, version).replace(placeholder.encode(), raw)
    read, end = Everything.decode(kind(data), version, len(b"before"))
    message.name, message.names = text, ["good", text, text]
    assert (read, end) == (message, len(data))
    assert Everything.decode(body(read, version), version)[0] == read  # and is UTF-8 from there on


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize(
    ("raw", "is_read"),
    [
        (b"\xff" * 10_922, True),
        (b"\xff" * 10_923, False),
        (b"a" * 32_764 + b"\xff", True),
        (b"a" * 32_765 + b"\xff", False),
    ],
)
def test_a_string_that_an_answer_could_not_repeat_is_a_decode_error(raw: bytes, is_read: bool, kind: type) -> None:
    """U+FFFD takes three bytes in the place of one, and an answer with the string has an int16 for its length."""
    placeholder = "p" * len(raw)
    data = kind(body(Everything(name=placeholder), 1).replace(placeholder.encode(), raw))
    if is_read:
        read, _ = Everything.decode(data, 1)
        assert Everything.decode(body(read, 1), 1)[0] == read
    else:
        with pytest.raises(DecodeError, match=f"a string of {len(raw)} bytes is not UTF-8"):
            Everything.decode(data, 1)


def test_malformed_strings_do_not_hide_the_end_of_a_frame() -> None:
    raw = body(Everything(name="p", parts=[Everything.Part(7, b"abc")]), 2).replace(b"p", b"\xff")
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            Everything.decode(raw[:end], 2)


def test_over_long_varints_are_decode_errors() -> None:
    with pytest.raises(DecodeError, match="varint"):
        Everything.decode(b"\0" + b"\x80" * 5 + b"\0" * 40, 2)


def test_elements_without_size_are_counted_against_the_frame() -> None:
    assert Hollow.decode(b"\0\0\0\2..", 0)[0].parts == [Hollow.Nothing(), Hollow.Nothing()]
    with pytest.raises(DecodeError, match="invalid length"):
        Hollow.decode(b"\x7f\xff\xff\xff", 0)


def test_an_unknown_version_is_no_decode_error() -> None:
    with pytest.raises(ValueError, match="Everything has no version 4, only 0 to 3"):
        Everything.decoder(4)


def test_messages_pickle_and_print() -> None:
    message = ProduceResponse([ProduceResponse.TopicProduceResponse("t")])
    assert pickle.loads(pickle.dumps(message)) == message
    assert "name='t'" in repr(message)
    assert "records=<100 bytes>" in repr(ProduceRequest.PartitionProduceData(0, bytes(100)))


def test_tracebacks_show_the_generated_line() -> None:
    with pytest.raises(DecodeError) as raised:
        Everything.decode(b"", 2)
    assert "unpack" in "".join(traceback.format_exception(raised.value.__cause__))


def test_threads_get_the_same_compiled_function() -> None:
    start = threading.Barrier(4)
    found: list[object] = []

    def compile_it() -> None:
        start.wait()
        found.append(Untouched.decoder(0))

    threads = [threading.Thread(target=compile_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
