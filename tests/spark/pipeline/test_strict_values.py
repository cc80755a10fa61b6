"""Bad values are bad records, whatever Spark itself would make of them; and what is written is what was there."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, types

from barnabas_spark.pipeline.formats.strict_json import StrictJsonDecoder, zone_named
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError
from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.rows import bad_records, decoded_rows, last_of_each_key
from barnabas_spark.pipeline.sinks.sink import Sink
from barnabas_spark.pipeline.sources import TopicSource
from tests.spark.pipeline.file_parts import planned, source_of, written

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

UTC = dt.UTC


def of(kind: types.DataType, *, nullable: bool = True) -> StrictJsonDecoder:
    """A decoder of objects with the columns id, never NULL, and f, of a type."""
    fields = [types.StructField("id", types.IntegerType(), False), types.StructField("f", kind, nullable)]
    return StrictJsonDecoder(types.StructType(fields), "Europe/Paris")


def field(kind: types.DataType, given: str) -> Any:
    """What a column takes of a JSON value."""
    return of(kind).decode(f'{{"id": 1, "f": {given}}}'.encode())["f"]


def refused(decoder: StrictJsonDecoder, value: bytes) -> str:
    with pytest.raises(BadValue) as caught:
        decoder.decode(value)
    return str(caught.value)


MONEY = types.DecimalType(6, 2)
INSIDE = types.StructType([types.StructField("x", types.ByteType(), False), types.StructField("y", MONEY)])
NUMBERS = ("BIGINT", "INT", "SMALLINT", "TINYINT")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (types.LongType(), "9223372036854775807", 2**63 - 1),
        (types.ByteType(), "-128", -128),
        (types.DoubleType(), "1e308", 1e308),
        (types.DoubleType(), "0.1", 0.1),
        (types.DoubleType(), "-0.0e5", 0.0),
        (types.DoubleType(), "12", 12.0),
        (types.DoubleType(), '"Infinity"', math.inf),
        (types.FloatType(), "3.4e38", 3.4e38),
        (MONEY, "1.2300", Decimal("1.23")),
        (MONEY, "-9999.99", Decimal("-9999.99")),
        (MONEY, "12e2", Decimal("1200.00")),
        (MONEY, '"7.5"', Decimal("7.50")),
        (types.StringType(), '"\\u00e9"', "é"),
        (types.StringType(), "1.50", "1.50"),
        (types.StringType(), '{"a": [true, null, 1.50, "é"]}', '{"a":[true,null,1.50,"é"]}'),
        (types.BinaryType(), '"AP8="', b"\x00\xff"),
        (types.BooleanType(), "false", False),
        (types.DateType(), '"2026-1-31"', dt.date(2026, 1, 31)),
        (types.TimestampType(), "1700000000", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (types.TimestampType(), '"2026-01-31T12:00:00.123456Z"', dt.datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
        (types.TimestampType(), '"2026-07-01 12:00"', dt.datetime(2026, 7, 1, 10, tzinfo=UTC)),
        (types.TimestampType(), '"2026-07-01T12:00:00"', dt.datetime(2026, 7, 1, 10, tzinfo=UTC)),
        (types.TimestampType(), '"2026-01-31T12:00:00-0130"', dt.datetime(2026, 1, 31, 13, 30, tzinfo=UTC)),
        (types.TimestampType(), '"2026-01-31T12:00:00.123456789Z"', dt.datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
        (types.TimestampNTZType(), '"2026-01-31T12:00:00.5"', dt.datetime(2026, 1, 31, 12, 0, 0, 500_000)),  # noqa: DTZ001 - it has no zone
        (types.ArrayType(types.IntegerType()), "[1, null]", [1, None]),
        (types.MapType(types.StringType(), types.ByteType()), '{"a": 1}', [("a", 1)]),
        (INSIDE, '{"x": 1, "z": 5}', {"x": 1, "y": None}),
        (INSIDE, "null", None),
    ],
)
def test_what_a_column_takes(kind: types.DataType, given: str, expected: Any) -> None:
    assert field(kind, given) == expected


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        *[(kind, "1.0", f"the number 1.0 is no {name}") for kind, name in
          zip((types.LongType(), types.IntegerType(), types.ShortType(), types.ByteType()), NUMBERS, strict=True)],
        (types.LongType(), "9223372036854775808", "the number 9223372036854775808 is out of the range of BIGINT"),
        (types.IntegerType(), "2147483648", "out of the range of INT, -2147483648 to 2147483647"),
        (types.ShortType(), "-32769", "out of the range of SMALLINT"),
        (types.ByteType(), "128", "out of the range of TINYINT"),
        (types.LongType(), '"5"', "the text '5' is no BIGINT"),
        (types.LongType(), "true", "the value true is no BIGINT"),
        (types.LongType(), "[1]", "an array is no BIGINT"),
        (types.DoubleType(), "1e400", "the number 1e400 is out of the range of DOUBLE"),
        (types.DoubleType(), "1" + 400 * "0", "is out of the range of DOUBLE"),
        (types.DoubleType(), "1e-400", "too small for DOUBLE, which would make it 0"),
        (types.DoubleType(), '"1.5"', "the text '1.5' is no number"),
        (types.DoubleType(), "false", "the value false is no number"),
        (types.FloatType(), "1e39", "the number 1e39 is out of the range of FLOAT"),
        (types.FloatType(), "1e-60", "too small for FLOAT"),
        (MONEY, "1.239", "the number 1.239 does not fit DECIMAL(6,2) without a loss"),
        (MONEY, '"1.239"', "the text '1.239' does not fit DECIMAL(6,2) without a loss"),
        (MONEY, "10000", "the number 10000 does not fit DECIMAL(6,2)"),
        (MONEY, "1e999999", "is no DECIMAL(6,2)"),
        (MONEY, '"NaN"', "the text 'NaN' is no DECIMAL(6,2)"),
        (MONEY, '"1,000"', "the text '1,000' is no DECIMAL(6,2)"),
        (MONEY, "true", "the value true is no DECIMAL(6,2)"),
        (types.StringType(), '"\\ud800"', "half of a surrogate pair"),
        (types.StringType(), '{"\\udc00": 1}', "half of a surrogate pair"),
        (types.BinaryType(), '"AP8"', "is no base64"),
        (types.BinaryType(), '"A P 8 ="', "is no base64"),
        (types.BinaryType(), "7", "the number 7 is no BINARY"),
        (types.BooleanType(), '"true"', "the text 'true' is no BOOLEAN"),
        (types.BooleanType(), "1", "the number 1 is no BOOLEAN"),
        (types.DateType(), '"2026-02-29"', "day is out of range for month"),
        (types.DateType(), '"20454"', "the text '20454' is no DATE"),
        (types.DateType(), "20454", "the number 20454 is no DATE"),
        (types.DateType(), '"2026-01-31T12:00:00"', "is no DATE"),
        (types.DateType(), '"31.01.2026"', "is no DATE"),
        (types.TimestampType(), "1700000000000", "beyond the year 9999: a number in a TIMESTAMP counts seconds"),
        (types.TimestampType(), "1700000000.5", "the number 1700000000.5 is no TIMESTAMP"),
        (types.TimestampType(), '"1700000000"', "the text '1700000000' is no TIMESTAMP"),
        (types.TimestampType(), '"12:30"', "the text '12:30' is no TIMESTAMP"),
        (types.TimestampType(), '"2026"', "the text '2026' is no TIMESTAMP"),
        (types.TimestampType(), '"2026-01-31T25:00:00Z"', "hour must be in 0..23"),
        (types.TimestampType(), '"2026-02-30T12:00:00.000Z"', "day is out of range"),
        (types.TimestampType(), '"+12026-01-31T12:00:00Z"', "is no TIMESTAMP"),
        (types.TimestampType(), '"0001-01-01T00:00:00+14:00"', "out of range"),
        (types.TimestampNTZType(), '"2026-01-31T12:00:00Z"', "has a zone, which TIMESTAMP_NTZ would lose"),
        (types.TimestampNTZType(), "1700000000", "is no TIMESTAMP_NTZ"),
        (types.ArrayType(types.ByteType()), "[1, 2, 300]", "f[2]: the number 300 is out of the range of TINYINT"),
        (types.ArrayType(types.ByteType()), '{"a": 1}', "f: an object is no array"),
        (types.ArrayType(INSIDE), '[{"x": 1}, {"x": null}]', "f[1].x: it is null, and the column is NOT NULL"),
        (types.MapType(types.StringType(), INSIDE), '{"a": {"y": 1}}', "f.a.x: it is missing, and the column is NOT"),
        (types.MapType(types.StringType(), INSIDE), "[]", "f: an array is no object"),
        (INSIDE, '{"x": 1, "y": 0.001}', "f.y: the number 0.001 does not fit DECIMAL(6,2)"),
        (INSIDE, '{"z": 1}', "f: the object has none of the columns x, y; it has z"),
        (INSIDE, '[{"x": 1}]', "f: an array is no object"),
    ],
)  # fmt: skip
def test_what_a_column_refuses(kind: types.DataType, given: str, reason: str) -> None:
    told = refused(of(kind), f'{{"id": 1, "f": {given}}}'.encode())
    assert told.startswith("f")
    assert reason in told


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": 1}{"id": 2}', 'the value goes on behind the end of its object: {"id": 2}'),
        (b'{"id": 1}\n{"id": 2}', "goes on behind the end"),
        (b'{"id": 1}]', "goes on behind the end of its object: ]"),
        (b'{"id": 1} text', "goes on behind the end of its object: text"),
        (b'{"id": 1}\x00', "goes on behind the end of its object: \\x00"),
        (b'[{"id": 1}]', "an array is no object"),
        (b'"id"', "the text 'id' is no object"),
        (b"null", "null is no object"),
        (b"5", "the number 5 is no object"),
        (b"", "the value is no JSON: it is empty"),
        (b" \n", "the value is no JSON: it is empty"),
        (b'{"id": 1, "f": "\xff"}', "the value is not UTF-8: byte 0xff at position 16"),
        ('{"id": 1}'.encode("utf-16"), "the value is not UTF-8"),
        (b'{"id": 1, "f": "\xed\xa0\x80"}', "the value is not UTF-8"),
        (b'\xef\xbb\xbf{"id": 1}', "the value is no JSON"),
        (b'\x00\x00\x00\x00\x07{"id": 1}', "the value is no JSON, but begins with a zero byte, as Confluent's frames"),
        (b'{"before": null, "after": {"id": 1}, "op": "c"}', ": a change event of Debezium, which 'format: debezium'"),
        (b'{"id": 1, "id": 2}', "the key 'id' stands twice in one object"),
        (b'{"id": 1, "other": {"a": 1, "a": 1}}', "the key 'a' stands twice"),
        (b'{"id": 1, "f": NaN}', "NaN is no number of JSON's"),
        (b'{"id": 1, "other": -Infinity}', "-Infinity is no number of JSON's"),
        (b"{'id': 1}", "Expecting property name enclosed in double quotes, at character 1"),
        (b'{"id": 1,}', "the value is no JSON"),
        (b'{"id": 01}', "the value is no JSON"),
        (b'{"id": 1, "f": "a\nb"}', "Invalid control character at, at character 17"),
        (b'{"id": 1 /* one */}', "the value is no JSON"),
        (b'{"id": ', "the value is no JSON: Expecting value"),
        (b'{"f": "x"}', "id: it is missing, and the column is NOT NULL"),
        (b'{"id": null}', "id: it is null, and the column is NOT NULL"),
        (
            b'{"schema": {}, "payload": {"id": 1}}',
            "has none of the columns id, f; it has schema, payload: the envelope",
        ),
        (b'{"ID": 1}', "none of the columns id, f; it has ID"),
        (b'{"id": ' + 5_000 * b"9" + b"}", "a whole number with thousands of digits"),
        (b'{"id": 1, "f": ' + 100_000 * b"[", "nested too deeply"),
        (b'{"id": 1, "f": ' + 100_000 * b'{"f":', "nested too deeply"),
        *[
            (b'{"id": 1, "f": ' + levels * b'{"f":' + b"1" + levels * b"}" + b"}", "nested too deeply")
            for levels in (600, 900)
        ],
    ],
)
def test_values_that_are_no_object_of_the_schema(value: bytes, reason: str) -> None:
    assert reason in refused(of(types.StringType()), value)


def test_space_around_an_object_and_unknown_fields_are_no_fault() -> None:
    decoder = StrictJsonDecoder(types.StructType([types.StructField("a", types.IntegerType())]), "UTC")
    assert decoder.decode(b' \r\n{"a": 1, "b": {"c": 1e999}}\t') == {"a": 1}
    assert decoder.decode(b"{}") == {"a": None}
    decoder.check_null()
    with pytest.raises(BadValue, match="id: the value is NULL, and the column is NOT NULL"):
        of(types.StringType()).check_null()


def test_types_and_zones_that_cannot_be_read_strictly() -> None:
    for kind in (types.VariantType(), types.DayTimeIntervalType(), types.MapType(types.LongType(), types.LongType())):
        with pytest.raises(FormatError, match="or set 'strict: false'"):
            of(kind)
    with pytest.raises(FormatError, match="the schema has two columns 'a'"):
        StrictJsonDecoder(types.StructType([types.StructField("a", types.LongType())] * 2), "UTC")
    assert zone_named("GMT+02:00").utcoffset(None) == dt.timedelta(hours=2)
    with pytest.raises(FormatError, match="use a region such as Europe/Paris"):
        zone_named("Europe/Nowhere")


# -- in Spark


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[TopicSource, Sink]]:
    """Makes the source and the sink of a file, whose source has some more lines."""
    directory = tmp_path_factory.mktemp("strict")

    def made(source: str, sink: str = "topic: t") -> tuple[TopicSource, Sink]:
        path: Path = directory / "strict.yaml"
        path.write_text(
            "name: strict\nbrokers: a:1\n"
            f"sources: {{orders: {{topic: orders, {source}}}}}\nsinks: {{out: {{from: orders, {sink}}}}}\n"
        )
        pipeline = read_pipeline(str(path), {}, {})
        return source_of(pipeline), pipeline.sinks[0]

    return made


_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
Parts = Callable[..., tuple[TopicSource, Sink]]


def records(spark: SparkSession, rows: list[tuple[bytes | None, bytes | None, str, int, int, int]]) -> DataFrame:
    """Records, of which the timestamps are given in milliseconds."""
    timed = [
        (*row[:5], dt.datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + dt.timedelta(milliseconds=row[5]))
        for row in rows
    ]
    return spark.createDataFrame(timed, _COLUMNS).coalesce(1)


def test_strict_by_default_and_lenient_as_spark_is(spark: SparkSession, parts: Parts) -> None:
    given: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b'{"id": 1, "at": "2026-01-31T12:00:00.123456Z", "local": "2026-01-31T12:00:00.123456", "price": 1.23}'),
        (b"k", b'{"id": 2}{"id": 3}'),
        (b"k", b'{"id": 4, "price": 1.239}'),
        (b"k", b'{"id": 5, "at": 1700000000000}'),
        (b"k", b'{"schema": {}, "payload": {}}'),
        (b"\xff", b'{"id": 6}'),
        (b"k", None),
    ]
    rows = records(spark, [(key, value, "orders", 0, offset, 0) for offset, (key, value) in enumerate(given)])
    schema = 'schema: "id BIGINT NOT NULL, at TIMESTAMP, local TIMESTAMP_NTZ, price DECIMAL(6,2)", dead_letters: bad'
    source, sink = parts(schema)
    good = decoded_rows(rows, source)
    # Microseconds are written as they were read.
    (found,) = [json.loads(row["value"]) for row in written(good, sink).collect()]
    assert found == {
        "id": 1, "at": "2026-01-31T12:00:00.123456Z", "local": "2026-01-31T12:00:00.123456", "price": 1.23,
    }  # fmt: skip
    told = [
        {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
        for row in bad_records(rows, source).collect()
    ]
    assert [each["offset"] for each in told] == ["1", "2", "3", "4", "5", "6"]
    for each, reason in zip(
        told,
        [
            "the value goes on behind", "price: the number 1.239 does not", "at: the number 1700000000000 is beyond",
            "the object has none of the columns", "the key is not UTF-8", "id: the value is NULL",
        ],
        strict=True,
    ):  # fmt: skip
        assert each["error"].startswith(reason)
    with pytest.raises(PySparkException, match="orders-0, offset 1: the value goes on behind the end of its object"):
        decoded_rows(rows, parts(schema.replace(", dead_letters: bad", ""))[0]).collect()
    lenient = parts(f"{schema}, strict: false")[0]
    assert bad_records(rows, lenient).count() == 0
    assert [row["id"] for row in decoded_rows(rows, lenient).select("id").collect()] == [1, 2, 4, 5, None, 6, None]


def test_a_table_has_the_last_record_of_each_key(spark: SparkSession) -> None:
    def last(*rows: tuple[bytes | None, bytes | None, str, int, int, int]) -> list[tuple[bytes, bytes]]:
        found = last_of_each_key(records(spark, list(rows))).collect()
        return sorted((bytes(row["key"]), bytes(row["value"])) for row in found)

    assert last(
        # Within a partition the offset decides, whatever the timestamps say.
        (b"one", b"old", "t", 0, 1, 900), (b"one", b"new", "t", 0, 2, 100),
        # A partition was added: its offsets begin anew.
        (b"moved", b"old", "t", 0, 50, 1_000), (b"moved", b"new", "t", 3, 0, 2_000),
        (b"gone", b"old", "t", 0, 51, 1_000), (b"gone", None, "t", 3, 1, 2_000),
        (b"back", None, "t", 0, 60, 1_000), (b"back", b"new", "t", 3, 2, 2_000),
        # Several topics; and copies of one record, of which each is as good.
        (b"both", b"new", "t", 0, 3, 3_000), (b"both", b"old", "u", 0, 99, 1_000),
        (b"same", b"new", "t", 0, 4, 500), (b"same", b"new", "u", 0, 7, 500),
    ) == [
        (b"back", b"new"), (b"both", b"new"), (b"moved", b"new"), (b"one", b"new"), (b"same", b"new"),
    ]  # fmt: skip
    with pytest.raises(PySparkException, match=r"t-0, offset 9: the record has no key"):
        last((b"k", b"v", "t", 0, 1, 5), (None, b"v", "t", 0, 9, 5))
    for older, newer in ((700, 700), (-1, 700)):
        with pytest.raises(PySparkException, match=r"t-\d, offset \d and t-\d, offset \d: which of these records"):
            last((b"k", b"a", "t", 0, 5, older), (b"k", b"b", "t", 1, 6, newer))


def test_only_the_columns_of_the_record_are_left_out(spark: SparkSession, parts: Parts) -> None:
    rows = spark.sql("SELECT 1 AS _id, false AS __deleted, 'k' AS _KEY, 5 AS _offset, 'v' AS value")
    json_sink, text_sink = (parts("schema: id INT", sink)[1] for sink in ("topic: t", "topic: t, format: text"))
    files, console = (parts("schema: id INT", sink)[1] for sink in ("parquet: out", "console: 5"))
    (row,) = written(rows, json_sink).collect()
    assert json.loads(row["value"]) == {"_id": 1, "__deleted": False, "value": "v"}
    assert written(rows, files).columns == ["_id", "__deleted", "value"]
    assert planned(rows, json_sink).left_out == planned(rows, files).left_out == ["_KEY", "_offset"]
    assert planned(rows, text_sink).left_out == ["_id", "__deleted", "_KEY", "_offset"]
    assert not planned(rows, console).left_out
