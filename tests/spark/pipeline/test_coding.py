"""Frames, schemas and codecs of Avro, Protobuf and framed JSON values, without Spark's engine."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from barnabas_spark.pipeline.entry import RegistryAddress
from barnabas_spark.pipeline.formats.avro import AvroDecoder, AvroEncoder, AvroSchema
from barnabas_spark.pipeline.formats.framed_json import FramedJsonEncoder, JsonFrames, json_schema, validator
from barnabas_spark.pipeline.formats.protobuf import (
    ProtobufDecoder,
    ProtobufEncoder,
    ProtobufSchema,
    encoded_path,
    split_path,
)
from barnabas_spark.pipeline.formats.schemas import (
    AVRO,
    PROTOBUF,
    NamedText,
    SchemaRegistry,
    SchemaText,
    framed,
    unframed,
)
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError, RegistryFailed
from tests.spark.pipeline.coded_schemas import AT, AVRO_ORDER, AVRO_SMALL, AVRO_SMALL_OLD, order, proto_file, proto_text
from tests.spark.pipeline.fake_registry import fake_registry

PROTO = SchemaText(proto_text())


# -- frames


def test_frames_are_confluents() -> None:
    assert framed(258, b"body") == b"\x00\x00\x00\x01\x02body"
    assert unframed(b"\x00\x00\x00\x01\x02body") == (258, b"body")
    # The paths of the documents: the first message is one zero byte; the third message's first one, and so on.
    assert encoded_path((0,)) == b"\x00"
    assert encoded_path((1,)) == b"\x02\x02"
    assert encoded_path((1, 0)) == b"\x04\x02\x00"
    assert split_path(b"\x04\x02\x00rest") == ((1, 0), b"rest")
    assert split_path(b"\x02\x00rest") == ((0,), b"rest")


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00\x01", b"{}{}{}"])
def test_values_without_a_frame(value: bytes) -> None:
    with pytest.raises(BadValue, match=r"too few for a schema id|begins with the byte 0x7b"):
        unframed(value)


@pytest.mark.parametrize("body", [b"", b"\x04\x02", b"\x01", b"\xfe\x03" + b"\x00" * 300, b"\x80" * 9])
def test_paths_that_are_none(body: bytes) -> None:
    with pytest.raises(BadValue, match="message indexes"):
        split_path(body)


@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=99), st.binary())
def test_every_path_is_read_as_it_was_written(path: list[int], body: bytes) -> None:
    assert split_path(encoded_path(tuple(path)) + body) == (tuple(path), body)


# -- JSON


def test_json_in_a_frame() -> None:
    columns = types.StructType([
        types.StructField("id", types.LongType(), False),
        types.StructField("price", types.DoubleType()),
        types.StructField("tags", types.ArrayType(types.StringType())),
        types.StructField("at", types.StructType([types.StructField("x", types.DateType())])),
        types.StructField("counts", types.MapType(types.StringType(), types.DecimalType(5, 2))),
    ])  # fmt: skip
    text = json_schema(columns, "orders")
    assert json.loads(text)["title"] == "orders"
    encoder = FramedJsonEncoder(SchemaText(text, (), 258), validates=True)
    written = '{"id":5,"price":"NaN","tags":["a",null],"at":{"x":"2026-01-31"},"counts":{"a":1.50}}'
    assert encoder.encode(written) == b"\x00\x00\x00\x01\x02" + written.encode()
    assert encoder.encode('{"id":null}') == b'\x00\x00\x00\x01\x02{"id":null}'
    for wrong, said in (
        ('{"id":"x"}', r"a row cannot be written as JSON of the schema: \$\.id: 'x' is not valid"),
        ('{"more":1}', r"\$: Additional properties are not allowed \('more'"),
    ):
        with pytest.raises(FormatError, match=said):
            encoder.encode(wrong)
    # What is made of the columns needs no second look.
    assert FramedJsonEncoder(SchemaText(text, (), 1), validates=False).encode("{") == b"\x00\x00\x00\x00\x01{"
    for wrong in ("{", '{"type": "objekt"}', "5"):
        with pytest.raises(FormatError, match="the JSON schema is wrong"):
            validator(wrong)


def test_frames_of_json_are_read_by_the_registry() -> None:
    with fake_registry() as fake:
        json_id = fake.put("a-value", {"schema": '{"type": "object"}', "schemaType": "JSON"})
        avro_id = fake.put("b-value", {"schema": AVRO_SMALL})
        registry = SchemaRegistry(fake.address)
        frames = JsonFrames(registry)
        assert frames.body(framed(json_id, b"{}")) == b"{}"
        for value, said in (
            (framed(avro_id, b"{}"), f"schema {avro_id} is of type AVRO, not JSON"),
            (framed(9, b"{}"), "schema 9 is not in the registry"),
            (b'{"id": 1}', "begins with the byte 0x7b, not with 0x00 and a schema id"),
        ):
            # An id that was asked for as what it is stays a bad one for JSON.
            with suppress(BadValue):
                registry.by_id(avro_id, AVRO)
            with pytest.raises(BadValue, match=said):
                frames.body(value)
    assert JsonFrames(None).body(framed(9, b"{}")) == b"{}"


# -- Avro


def test_an_avro_schema_as_columns() -> None:
    columns = AvroSchema(SchemaText(AVRO_ORDER)).columns()
    assert columns.simpleString() == (
        "struct<id:bigint,customer:string,at:timestamp,price:decimal(9,2),kind:string,tags:array<string>,"
        "counts:map<string,int>,place:struct<x:int>,trace:string>"
    )


def test_avro_values() -> None:
    encoder = AvroEncoder(SchemaText(AVRO_SMALL, (), 258), is_framed=True)
    # A long is a zigzag varint: 5 is ten.
    assert encoder.encode({"id": 5}) == b"\x00\x00\x00\x01\x02\x0a"
    schema = SchemaText(AVRO_ORDER)
    for given_row in (order(), order(customer=None, place=None)):
        value = AvroEncoder(schema, is_framed=False).encode(given_row)
        assert AvroDecoder(schema, None, is_framed=False).decode(value) == given_row
    needed = {name: value for name, value in order().items() if name not in ("tags", "counts", "trace")}
    value = AvroEncoder(schema, is_framed=False).encode(needed)
    assert AvroDecoder(schema, None, is_framed=False).decode(value) == order(tags=[], counts={}, trace="")
    for wrong in ({"id": None}, {"kind": "GIVE"}, {"more": 1}):
        with pytest.raises(FormatError, match="a row cannot be written as Avro"):
            AvroEncoder(schema, is_framed=False).encode(order(**wrong))


@pytest.mark.parametrize("value", [b"", b"\x0a\x0a", b"\xff" * 12])
def test_bytes_that_are_no_avro(value: bytes) -> None:
    with pytest.raises(BadValue, match="the value is no Avro of the schema"):
        AvroDecoder(SchemaText(AVRO_SMALL), None, is_framed=False).decode(value)


def zigzag(number: int) -> bytes:
    left, found = number << 1 ^ number >> 63 if number < 0 else number << 1, b""
    while left >= 0x80:
        found, left = found + bytes([left & 0x7F | 0x80]), left >> 7
    return found + bytes([left])


LETTER = {"type": "enum", "name": "Letter", "symbols": ["A", "B"]}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
NOTHING = {"type": "record", "name": "Nothing", "fields": []}


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("int", zigzag(2**31), "f: .*2147483648 is out of the range of int"),
        ("long", b"\xff" * 9 + b"\x7f", "f: .*more than 64 bits"),
        ("long", b"\xff" * 12 + b"\x01", "f: .*more than ten bytes"),
        ("boolean", b"\x02", "f: .*0x02 is no boolean"),
        ("string", zigzag(2) + b"\xff\xfe", "can't decode byte 0xff"),
        ("string", zigzag(-5), "f: .*-5 is no length"),
        ("bytes", zigzag(2**40) + b"a", "it is cut off"),
        (LETTER, zigzag(2), "f: .*an enum of 2 symbols has no number 2"),
        (LETTER, zigzag(-1), "f: .*an enum of 2 symbols has no number -1"),
        (["null", "int"], zigzag(-1) + zigzag(5), "f: .*a union of 2 has no branch -1"),
        ({"type": "array", "items": NOTHING}, zigzag(2**40) + b"\x00", "more than 10,000 elements without a byte"),
        ({"type": "array", "items": "null"}, (zigzag(9_000) + zigzag(-9_000) + b"\x02") * 2, "10,000 elements"),
        ({"type": "map", "values": "boolean"}, zigzag(1) + zigzag(1) + b"k\x07\x00", "f: value: .*is no boolean"),
        ({"type": "fixed", "name": "Four", "size": 4}, b"abc", "it is cut off"),
        (NODE, zigzag(1) * 3 + zigzag(-1) + b"\x00", "f: next: next: next: .*has no branch -1"),
        ({"type": "int", "logicalType": "date"}, zigzag(2**31 - 1), "OverflowError"),
    ],
)
def test_what_avro_does_not_have_is_refused(kind: Any, body: bytes, said: str) -> None:
    """fastavro takes several of these for good: the index -1, for example, is the last branch of a union."""
    schema = json.dumps({"type": "record", "name": "Row", "fields": [{"name": "f", "type": kind}]})
    if kind == NODE:
        schema = schema.replace('"Row"', '"Outer"')
    decoder = AvroDecoder(SchemaText(schema), None, is_framed=False)
    with pytest.raises(BadValue, match=said):
        decoder.decode(body)


@given(st.binary(max_size=40))
def test_any_bytes_are_avro_or_bad(value: bytes) -> None:
    for framing in (False, True):
        # Any other error would fail the query, rather than the record.
        with suppress(BadValue):
            AvroDecoder(SchemaText(AVRO_ORDER), None, is_framed=framing).decode(value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "the Avro schema is wrong: JSONDecodeError"),
        ('"string"', "is no record"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": "nothing"}]}', "wrong: UnknownType"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": ["int", "string"]}]}', "union of 2 types"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "R"]}]}', "R contains itself"),
    ],
)
def test_avro_schemas_that_are_no_columns(schema: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        AvroSchema(SchemaText(schema)).columns()


# -- Protobuf


def message(**more: Any) -> dict[str, Any]:
    return {
        "id": 5, "customer": "ann", "at": AT, "big": Decimal(2**64 - 1), "kind": "SELL", "tags": ["a", "b"],
        "counts": [("x", 1)], "place": {"x": 7}, **more,
    }  # fmt: skip


def test_a_protobuf_message_as_columns() -> None:
    parsed = ProtobufSchema(PROTO)
    assert (parsed.names(), parsed.path_of("shop.Order.Place")) == (["shop.Other", "shop.Order"], (1, 0))
    assert (parsed.name_at((1, 0)), parsed.name_at((2,)), parsed.name_at((0, 0))) == ("shop.Order.Place", None, None)
    assert parsed.columns("shop.Order").simpleString() == (
        "struct<id:bigint,customer:string,at:timestamp,big:decimal(20,0),kind:string,tags:array<string>,"
        "counts:map<string,int>,place:struct<x:int>>"
    )
    assert parsed.columns("shop.Other") == types.StructType([])


def test_protobuf_values() -> None:
    encoder = ProtobufEncoder(PROTO._replace(schema_id=258), "shop.Order", is_framed=True)
    # Field 1, a varint: 5. The message is the file's second.
    assert encoder.encode({"id": 5}) == b"\x00\x00\x00\x01\x02" + b"\x02\x02" + b"\x08\x05"
    decoder = ProtobufDecoder(PROTO, "shop.Order", None, is_framed=True)
    assert decoder.decode(encoder.encode(message(counts={"x": 1}))) == message()
    unset = message(id=0, customer=None, at=None, big=Decimal(0), kind="BUY", tags=[], counts=[], place=None)
    assert decoder.decode(encoder.encode({})) == unset
    # An enum's number that this schema does not know: field 5, 9.
    assert decoder.decode(framed(1, b"\x02\x02\x28\x09"))["kind"] == "9"
    for wrong in ({"id": 2**63}, {"kind": "GIVE"}, {"tags": [None]}, {"id": "x"}):
        with pytest.raises(FormatError, match=r"a row cannot be written as Protobuf shop\.Order"):
            encoder.encode(message(**{"counts": {}, **wrong}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (framed(1, b"\x02\x02\x08"), "the value is no Protobuf of the schema"),
        (framed(1, b"\x00\x08\x05"), r"is a message shop\.Other, not shop\.Order"),
        (framed(1, b"\x02\x08\x08\x05"), r"is a message \(4,\), not shop\.Order"),
        (framed(1, b"\x02\x02\x1a\x0a\x08" + b"\xff" * 8 + b"\x7f"), "timestamp outside of the years"),
    ],
)
def test_bytes_that_are_no_protobuf(value: bytes, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        ProtobufDecoder(PROTO, "shop.Order", None, is_framed=True).decode(value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x0d\x01\x00\x00\x00", r"its field 1 is no shop\.Order\.id, but of wire type 5"),
        (b"\x0a\x02ab", r"its field 1 is no shop\.Order\.id, but of wire type 2"),
        (b"\x10\x05", r"its field 2 is no shop\.Order\.customer, but of wire type 0"),
        (b"\x2a\x01a", r"its field 5 is no shop\.Order\.kind, but of wire type 2"),
        (b"\x42\x03\x0a\x01a", r"its field 1 is no shop\.Order\.Place\.x, but of wire type 2"),
        (b"\x1a\x06\x10\x80\x94\xeb\xdc\x03", r"shop\.Order\.at: 1000000000 is no number of nanoseconds"),
        (b"\x12\x02\xff\xfe", "bad UTF-8"),
    ],
)
def test_fields_of_another_type_are_no_unknown_ones(body: bytes, said: str) -> None:
    """Protobuf itself keeps them among the unknown fields: the column would be NULL, or its default."""
    decoder = ProtobufDecoder(PROTO, "shop.Order", None, is_framed=False)
    with pytest.raises(BadValue, match=said):
        decoder.decode(body)
    # Field 127, of a newer version of the schema.
    assert decoder.decode(b"\x08\x05\xf8\x07\x01")["id"] == 5


def test_a_text_of_an_old_protobuf_file_that_is_not_utf_8() -> None:
    file = FileDescriptorProto(name="old.proto", syntax="proto2")
    file.message_type.add(name="Old").field.add(name="t", number=1, type=9, label=1)
    decoder = ProtobufDecoder(SchemaText(proto_text(file)), None, None, is_framed=False)
    assert decoder.decode(b"\x0a\x01a") == {"t": "a"}
    with pytest.raises(BadValue, match=r"Old\.t: the text is not UTF-8: b'\\xff'"):
        decoder.decode(b"\x0a\x01\xff")


@given(st.binary(max_size=40))
def test_any_bytes_are_protobuf_or_bad(value: bytes) -> None:
    with suppress(BadValue):
        ProtobufDecoder(PROTO, "shop.Order", None, is_framed=False).decode(value)


def test_protobuf_schemas_that_are_wrong() -> None:
    with pytest.raises(FormatError, match="no serialized file descriptor"):
        ProtobufSchema(SchemaText("syntax = proto3"))
    with pytest.raises(FormatError, match=r"has no message 'shop\.Ordr'; it has shop\.Other, shop\.Order"):
        ProtobufSchema(PROTO).message_name("shop.Ordr")
    lacks = FileDescriptorProto(name="a.proto", dependency=["b.proto"])
    with pytest.raises(FormatError, match=r"imports b\.proto, which is not there"):
        ProtobufSchema(SchemaText(proto_text(lacks)))
    wrong = proto_file()
    wrong.message_type[1].field[7].type_name = ".shop.Nothing"
    with pytest.raises(FormatError, match="the Protobuf schema is wrong"):
        ProtobufSchema(SchemaText(proto_text(wrong)))


# -- the registry


def test_values_of_an_older_schema_are_resolved_and_schemas_asked_for_once() -> None:
    with fake_registry("ann:secret") as fake:
        old, new = (fake.put("small-value", {"schema": schema}) for schema in (AVRO_SMALL_OLD, AVRO_SMALL))
        registry = SchemaRegistry(fake.address)
        latest = registry.latest("small-value", AVRO)
        assert (latest.schema_id, latest.text) == (new, AVRO_SMALL)
        decoder = AvroDecoder(latest, registry, is_framed=True)
        for _ in range(3):
            assert [decoder.decode(framed(each, b"\x0a")) for each in (old, new)] == [{"id": 5}, {"id": 5}]
        assert fake.asked == [
            "GET /subjects/small-value/versions/latest", f"GET /schemas/ids/{new}", f"GET /schemas/ids/{old}",
        ]  # fmt: skip
        with pytest.raises(BadValue, match="schema 9 is not in the registry"):
            decoder.decode(framed(9, b"\x0a"))
        assert registry.register("small-value", SchemaText(AVRO_SMALL_OLD), AVRO).schema_id == 258
        with pytest.raises(RegistryFailed, match="has no subject 'no/thing'"):
            registry.latest("no/thing", AVRO)
        assert fake.asked[-1] == "GET /subjects/no%2Fthing/versions/latest"
        with pytest.raises(RegistryFailed, match="answers 401 to"):
            SchemaRegistry(RegistryAddress(fake.url, None)).latest("small-value", AVRO)
    with pytest.raises(RegistryFailed, match="does not answer at"):
        SchemaRegistry(fake.address).by_id(1, AVRO)


def test_schemas_that_refer_to_others() -> None:
    place = json.dumps({"type": "record", "name": "shop.Place", "fields": [{"name": "x", "type": "int"}]})
    fields = [
        {"name": "place", "type": "shop.Place"},
        {"name": "way", "type": {"type": "array", "items": "shop.Place"}},
    ]
    trip = json.dumps({"type": "record", "name": "Trip", "fields": fields})
    main = proto_file()
    main.dependency.append("deep/base.proto")
    base = FileDescriptorProto(name="", package="deep", syntax="proto3")
    base.message_type.add(name="Base")
    main.message_type[1].field[7].type_name = ".deep.Base"
    with fake_registry() as fake:
        registry = SchemaRegistry(fake.address)
        fake.put("place", {"schema": place})
        reference = {"name": "shop.Place", "subject": "place", "version": 1}
        fake.put("trip-value", {"schema": trip, "references": [reference]})
        found = registry.latest("trip-value", AVRO)
        assert found.references == (NamedText("shop.Place", place),)
        value = AvroEncoder(found, is_framed=False).encode({"place": {"x": 1}, "way": [{"x": 2}]})
        assert value == b"\x02\x02\x04\x00"
        assert AvroDecoder(found, None, is_framed=False).decode(value) == {"place": {"x": 1}, "way": [{"x": 2}]}
        fake.put("base", {"schema": proto_text(base), "schemaType": PROTOBUF})
        reference = {"name": "deep/base.proto", "subject": "base", "version": 1}
        fake.put("o-value", {"schema": proto_text(main), "schemaType": PROTOBUF, "references": [reference]})
        columns = ProtobufSchema(registry.latest("o-value", PROTOBUF)).columns("shop.Order")
        assert columns["place"].dataType == types.StructType([])
        with pytest.raises(RegistryFailed, match="is of type PROTOBUF, not AVRO: subject 'o-value'"):
            SchemaRegistry(fake.address).latest("o-value", AVRO)
