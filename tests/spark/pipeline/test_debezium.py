"""Change events of Debezium as rows: what each event says, and which events are bad, in JSON and in Avro.

The decoders need no session. The events are those of Debezium's documentation, or made like them.
"""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from barnabas_spark.pipeline.formats.debezium import AvroImages, DebeziumDecoder, JsonImages, envelope_columns
from barnabas_spark.pipeline.formats.framed_json import JsonFrames
from barnabas_spark.pipeline.formats.schemas import SchemaRegistry, SchemaText, framed
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError
from tests.spark.pipeline.debezium_events import AVRO_KEY, ENVELOPE, avro_event, event, with_schema
from tests.spark.pipeline.fake_registry import fake_registry

UTC = dt.UTC
COLUMNS = "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(8,2)"
ANN, BOB = {"id": 1, "name": "Ann", "price": "1.50"}, {"id": 1, "name": "Bob", "price": None}
KEY = b'{"id": 1}'


def parsed(ddl: str) -> types.StructType:
    """Columns, without Spark's own parser, which needs a session."""
    kinds: dict[str, types.DataType] = {
        "BIGINT": types.LongType(), "STRING": types.StringType(), "DATE": types.DateType(),
        "TIMESTAMP": types.TimestampType(), "TIMESTAMP_NTZ": types.TimestampNTZType(),
        "BINARY": types.BinaryType(), "DECIMAL(8,2)": types.DecimalType(8, 2),
        "ARRAY<STRING>": types.ArrayType(types.StringType()),
    }  # fmt: skip
    fields = []
    for each in ddl.split(", "):
        name, kind, *rest = each.split(" ")
        fields.append(types.StructField(name, kinds[kind], not rest))
    return types.StructType(fields)


def of(ddl: str = COLUMNS, *, tombstones: bool = False, frames: JsonFrames | None = None) -> DebeziumDecoder:
    columns = parsed(ddl)
    return DebeziumDecoder(JsonImages(columns, "UTC", frames), columns.fieldNames(), takes_tombstones=tombstones)


def refused(decoder: DebeziumDecoder, value: bytes | None, key: bytes | None = KEY) -> str:
    with pytest.raises(BadValue) as caught:
        decoder.decode(value, key)
    return str(caught.value)


ROW = {"id": 1, "name": "Ann", "price": Decimal("1.50")}


@pytest.mark.parametrize(("op", "operation"), [("c", "create"), ("r", "read"), ("u", "update")])
@pytest.mark.parametrize("has_schema", [False, True])
def test_a_change_is_the_row_after_it(op: str, operation: str, has_schema: bool) -> None:
    value = event(op, None if op != "u" else BOB, ANN)
    value = with_schema(value, {"type": "int64", "field": "id"}) if has_schema else value
    assert of().decode(value, None) == {**ROW, "_operation": operation}


@pytest.mark.parametrize(
    ("before", "key", "expected"),
    [
        # REPLICA IDENTITY FULL; only the key's columns, with and without the others; nothing but the record's key.
        (ANN, None, ROW),
        ({"id": 1}, KEY, {"id": 1, "name": None, "price": None}),
        ({"id": 1, "name": None, "price": None}, KEY, {"id": 1, "name": None, "price": None}),
        (None, KEY, {"id": 1, "name": None, "price": None}),
        (None, b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', {"id": 1, "name": None, "price": None}),
        # Other columns in the key than in `before`, as message.key.columns makes them.
        ({"id": 1}, b'{"name": "Ann"}', {"id": 1, "name": "Ann", "price": None}),
        # The row is told, so a key of another converter is no fault.
        (ANN, b"Struct{id=1}", ROW),
        ({**ANN, "name": "__debezium_unavailable_value"}, KEY, {**ROW, "name": None}),
    ],
)
def test_a_delete_is_the_row_before_it(before: Any, key: bytes | None, expected: dict[str, Any]) -> None:
    for value in (event("d", before), with_schema(event("d", before))):
        assert of().decode(value, key) == {**expected, "_operation": "delete"}


def test_a_tombstone_is_no_row_unless_it_is_to_delete() -> None:
    gone = {"id": 1, "name": None, "price": None, "_operation": "delete"}
    # The second is what JsonConverter makes of NULL with schemas.
    for value in (None, b'{"schema": null, "payload": null}'):
        assert of().decode(value, KEY) is None
        assert of().decode(value, None) is None
        assert of(tombstones=True).decode(value, KEY) == gone
        assert "the tombstone does not say which row is deleted" in refused(of(tombstones=True), value, None)
        assert "its key cannot be read" in refused(of(tombstones=True), value, b"1")


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        (event("t"), KEY, "op: 't' is the truncation of a table, which no row can say"),
        (event("m", message={"prefix": "foo", "content": "Ymfy"}), KEY, "op: 'm' is a message of the database"),
        (event("x", ANN, ANN), KEY, "op: 'x' is none of Debezium's operations"),
        (event(5, ANN, ANN), KEY, "op: '5' is none of Debezium's operations"),
        (event(None, ANN, ANN), KEY, "no change event of Debezium: it has no 'op', but before, after"),
        # A heartbeat, the end of a transaction, a change of the schema: other topics of a connector.
        (b'{"ts_ms": 1700000000000}', b'{"serverName": "shop"}', "it has no 'op', but ts_ms"),
        (b'{"status": "END", "id": "571", "event_count": 2}', KEY, "it has no 'op', but status, id, event_count"),
        (b'{"source": {}, "databaseName": "shop", "ddl": "CREATE"}', KEY, "it has no 'op', but source, databaseName"),
        (b'{"id": 1, "name": "Ann", "__deleted": "false"}', KEY, "flattened events, as ExtractNewRecordState makes"),
        (b'{"schema": {}, "payload": {"id": 1, "__op": "c"}}', KEY, "are read with 'format: json'"),
        (b'{"schema": {}, "payload": [1]}', KEY, "no change event of Debezium: [1]"),
        (b"{}", KEY, "it has no 'op', but nothing"),
        (b"[1]", KEY, "no change event of Debezium: [1]"),
        (b'"c"', KEY, "no change event of Debezium: c"),
        (b"", KEY, "the value is no JSON: it is empty"),
        (event("c", None, ANN) + b"{}", KEY, "goes on behind the end of its object"),
        (event("c", None, ANN)[:-1], KEY, "the value is no JSON"),
        (b"\xff", KEY, "the value is not UTF-8"),
        (event("c", ANN), KEY, "after: it is null or missing, and the operation is create"),
        (event("u", ANN), KEY, "the operation is update (MongoDB's connector writes it for updates with capture.mode"),
        (event("c", None, [ANN]), KEY, "after: [{"),
        (event("c", None, 5), KEY, "after: 5 is no object"),
        (event("c", None, "Ann"), KEY, "after: the value is no JSON"),
        (event("c", None, {}), KEY, "after.id: it is missing, and the column is NOT NULL"),
        (event("c", None, {**ANN, "name": None}), KEY, "after.name: it is null, and the column is NOT NULL"),
        (event("u", ANN, {**ANN, "price": "1.505"}), KEY, "after.price: the text '1.505' does not fit DECIMAL(8,2)"),
        (event("c", None, {"key": 1}), KEY, "after: the object has none of the columns id, name, price; it has key"),
        (event("d", {"id": "one"}), KEY, "before.id: the text 'one' is no BIGINT"),
        (event("d", [1]), KEY, "before: [1] is no object"),
        (event("d"), None, "the delete does not say which row is deleted: 'before' and key have nothing, and the"),
        (event("d", {}), None, "does not say which row is deleted"),
        (event("d", {"id": None}), b'{"key": 1}', "'before' and key have id, key, and the columns are id, name, price"),
        (event("d"), b"Struct{id=1}", "the delete has no 'before', and its key cannot be read: the value is no JSON"),
        (event("d"), b"1", "its key cannot be read: 1 is no object"),
        (event("d"), b"\x00\x00\x00\x00\x05\x02", "its key cannot be read: the value is no JSON"),
        (event("d"), b'{"id": "one"}', "key.id: the text 'one' is no BIGINT"),
        (
            event("u", {"id": 1}, {**ANN, "name": "__debezium_unavailable_value"}),
            KEY,
            "after.name: the event has __debezium_unavailable_value instead of a value that did not change: set",
        ),
        (b'{"op": "c", "after": ' + 3_000 * b"[" + 3_000 * b"]" + b"}", KEY, "nested too deeply"),
        (b'{"op": "c", "op": "d", "after": null}', KEY, "the key 'op' stands twice in one object"),
    ],
)  # fmt: skip
def test_events_that_are_bad(value: bytes, key: bytes | None, reason: str) -> None:
    assert reason in refused(of(), value, key)


def test_a_value_that_an_update_did_not_change_is_taken_from_before() -> None:
    """What PostgreSQL does not log again: Debezium writes a placeholder, which would be taken for the value."""
    decoder = of("id BIGINT, name STRING, raw BINARY, tags ARRAY<STRING>")
    before = {"id": 1, "name": "long", "raw": "AP8=", "tags": ["a"]}
    after = {
        "id": 1, "name": "__debezium_unavailable_value", "raw": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        "tags": ["__debezium_unavailable_value"],
    }  # fmt: skip
    expected = {"id": 1, "name": "long", "raw": b"\x00\xff", "tags": ["a"], "_operation": "update"}
    assert decoder.decode(event("u", before, after), KEY) == expected
    for name in ("name", "raw", "tags"):
        assert f"after.{name}: the event has __debezium_unavailable_value" in refused(
            decoder, event("u", {**before, name: after[name]}, after)
        )


TIMES = "id BIGINT, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, price DECIMAL(8,2), other DECIMAL(8,2)"
_CODED = {
    "id": 1, "day": 20_484, "at": 1_769_860_800_123_456, "local": 1_769_860_800_123, "price": "AJY=",
    "other": {"scale": 3, "value": "/2o="},
}  # fmt: skip
_KINDS: list[dict[str, Any]] = [
    {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
    {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at"},
    {"type": "int64", "name": "io.debezium.time.Timestamp", "field": "local"},
    {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}, "field": "price"},
    {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "field": "other"},
]


def test_the_schema_beside_an_event_says_how_times_and_decimals_are_coded() -> None:
    assert of(TIMES).decode(with_schema(event("c", None, _CODED), *_KINDS), None) == {
        "id": 1, "day": dt.date(2026, 1, 31), "at": dt.datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC),
        "local": dt.datetime(2026, 1, 31, 12, 0, 0, 123_000),  # noqa: DTZ001 - it has no zone
        "price": Decimal("1.50"), "other": Decimal("-0.15"), "_operation": "create",
    }  # fmt: skip
    for name, value, reason in (
        ("day", 10**9, "after.day: '1000000000' is no io.debezium.time.Date"),
        ("at", 10**18, "after.at: '1000000000000000000' is no io.debezium.time.MicroTimestamp"),
        ("price", "AJY", "after.price: 'AJY' is no org.apache.kafka.connect.data.Decimal"),
        ("other", {"scale": 0}, "is no io.debezium.data.VariableScaleDecimal"),
    ):
        assert reason in refused(of(TIMES), with_schema(event("c", None, {**_CODED, name: value}), *_KINDS))


def test_a_number_without_a_schema_is_no_time() -> None:
    """Debezium never counts seconds: 1970 would be read of milliseconds."""
    for name, reason in (("at", "counts milliseconds or microseconds"), ("day", "is no DATE")):
        assert reason in refused(of(TIMES), event("c", None, {"id": 1, name: 500}))


def test_events_and_keys_in_frames() -> None:
    """As Confluent's JsonSchemaConverter writes them."""
    decoder = of(frames=JsonFrames(None))
    gone = {"id": 1, "name": None, "price": None, "_operation": "delete"}
    assert decoder.decode(framed(7, event("c", None, ANN)), None) == {**ROW, "_operation": "create"}
    assert decoder.decode(framed(7, event("d")), framed(8, KEY)) == gone
    assert "begins with the byte 0x7b, not with 0x00 and a schema id" in refused(decoder, event("c", None, ANN))
    assert "its key cannot be read: the value begins with the byte 0x7b" in refused(decoder, framed(7, event("d")))


def test_documents_of_mongodb() -> None:
    """Their images are texts in extended JSON, and their keys have the text of the document's _id."""
    decoder = of("_id STRING, name STRING, count BIGINT, at TIMESTAMP, price DECIMAL(8,2), place STRING")
    document = {
        "_id": {"$oid": "596e275826f08b2730779e1f"}, "name": "Ann", "count": {"$numberLong": "7"},
        "at": {"$date": 1_769_860_800_123}, "price": {"$numberDecimal": "1.50"}, "place": {"x": {"$numberInt": "1"}},
    }  # fmt: skip
    row = {
        "_id": "596e275826f08b2730779e1f", "name": "Ann", "count": 7,
        "at": dt.datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC), "price": Decimal("1.50"), "place": '{"x":1}',
    }  # fmt: skip
    assert decoder.decode(event("c", None, json.dumps(document)), None) == {**row, "_operation": "create"}
    key = json.dumps({"id": json.dumps(document["_id"])}).encode()
    gone = dict.fromkeys(row) | {"_id": row["_id"], "_operation": "delete"}
    assert decoder.decode(event("d"), key) == gone
    numbers = of("_id BIGINT, name STRING")
    assert numbers.decode(event("d"), b'{"id": "1004"}') == {"_id": 1004, "name": None, "_operation": "delete"}
    later = event("c", None, json.dumps({"_id": {"$numberLong": "1004"}}))
    assert numbers.decode(later, None) == {"_id": 1004, "name": None, "_operation": "create"}
    for wrong, reason in (({"$numberLong": "x"}, "is no number of MongoDB's"), ({"$date": 10**16}, "are no time of")):
        assert reason in refused(decoder, event("c", None, json.dumps({"_id": wrong})))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["c", "d", "u"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["schema", "payload", "op", "before", "after", "id", "fields", "field", "$date", "_id"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@given(_VALUES, _VALUES)
def test_any_json_is_an_event_or_bad(value: Any, key: Any) -> None:
    decoder = of(f"{TIMES}, _id STRING", tombstones=True)
    # Any other error would fail the query, rather than the record.
    with suppress(BadValue):
        decoder.decode(json.dumps(value).encode(), json.dumps(key).encode())


# -- Avro


def test_events_in_avro() -> None:
    assert envelope_columns(SchemaText(ENVELOPE)).simpleString() == "struct<id:bigint,name:string>"
    images = AvroImages(SchemaText(ENVELOPE), None, is_framed=False)
    decoder = DebeziumDecoder(images, ["id", "name"], takes_tombstones=False)
    ann = {"id": 1, "name": "Ann"}
    assert decoder.decode(avro_event("c", None, ann), None) == {**ann, "_operation": "create"}
    assert decoder.decode(avro_event("d", ann), b"\x02") == {**ann, "_operation": "delete"}
    assert decoder.decode(None, b"\x02") is None
    assert "without a registry the schema of keys is not known" in refused(decoder, avro_event("d"), b"\x02")
    assert "op: 't' is the truncation" in refused(decoder, avro_event("t"))
    assert "after: it is null" in refused(decoder, avro_event("u", ann))
    assert "the value is no Avro of the schema" in refused(decoder, avro_event("c", None, ann)[:-1])
    placeholder = avro_event("u", None, {"id": 1, "name": "__debezium_unavailable_value"})
    assert "after.name: the event has __debezium_unavailable_value" in refused(decoder, placeholder)


def test_events_in_avro_by_a_registry() -> None:
    with fake_registry() as fake:
        value_id = fake.put("t-value", {"schema": ENVELOPE})
        key_id = fake.put("t-key", {"schema": AVRO_KEY})
        text_id = fake.put("x-key", {"schema": '"string"'})
        images = AvroImages(SchemaText(ENVELOPE), SchemaRegistry(fake.address), is_framed=True)
        decoder = DebeziumDecoder(images, ["id", "name"], takes_tombstones=True)
        key = framed(key_id, b"\x02")
        gone = {"id": 1, "name": None, "_operation": "delete"}
        assert decoder.decode(avro_event("d", schema_id=value_id), key) == gone
        assert decoder.decode(None, key) == gone
        assert fake.asked.count(f"GET /schemas/ids/{key_id}") == 1
        for bad, reason in (
            (b'{"id": 1}', "not with 0x00 and a schema id"),
            (framed(9, b"\x02"), "schema 9 is not in the registry"),
            (framed(text_id, b"\x02"), "the Avro schema is no record"),
            (framed(key_id, b"\x02\x02"), "1 bytes are left"),
        ):
            assert reason in refused(decoder, None, bad)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (AVRO_KEY, "is no envelope of Debezium's: it has no field 'after', but id"),
        (ENVELOPE.replace('["null", "Value"]', '["null", "string"]'), "its field 'after' is no record"),
    ],
)
def test_avro_schemas_that_are_no_envelopes(schema: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        envelope_columns(SchemaText(schema))


@given(st.binary(max_size=40), st.binary(max_size=12))
def test_any_bytes_are_an_event_or_bad(value: bytes, key: bytes) -> None:
    images = AvroImages(SchemaText(ENVELOPE), None, is_framed=False)
    with suppress(BadValue):
        DebeziumDecoder(images, ["id", "name"], takes_tombstones=True).decode(value, key)
