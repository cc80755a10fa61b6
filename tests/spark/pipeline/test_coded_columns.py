"""Avro and Protobuf values as columns of Spark, and whole pipelines of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.formats.avro import AvroEncoder
from barnabas_spark.pipeline.formats.protobuf import ProtobufDecoder
from barnabas_spark.pipeline.formats.schemas import SchemaText
from barnabas_spark.pipeline.pipeline_error import FormatError, RegistryFailed
from barnabas_spark.pipeline.pipeline_file import Pipeline, read_pipeline
from barnabas_spark.pipeline.rows import bad_records, decoded_rows
from tests.spark.committed_records import committed_records, committed_values
from tests.spark.pipeline.coded_schemas import AVRO_ORDER, AVRO_SMALL, order, proto_set, proto_text
from tests.spark.pipeline.fake_registry import fake_registry
from tests.spark.pipeline.file_parts import source_of
from tests.spark.pipeline.file_parts import written as encoded_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FILE = """\
name: coded
brokers: {brokers}
registry: {{url: "{url}", login: "${{env:LOGIN:-}}"}}
sources:
  orders:
    topic: {source}
    format: {format}
    {more}
    options: {{startingOffsets: earliest}}
sinks:
  out: {{from: orders, topic: {target}, {sink}}}
"""


def written(directory: Path, **values: str) -> Path:
    (directory / "order.avsc").write_text(AVRO_ORDER)
    (directory / "small.avsc").write_text(AVRO_SMALL)
    (directory / "shop.desc").write_bytes(proto_set())
    path = directory / "coded.yaml"
    given = {"brokers": "a:1", "url": "http://127.0.0.1:1", "source": "orders", "target": "t", "more": "", **values}
    path.write_text(FILE.format(**given))
    return path


def pipeline(directory: Path, **values: str) -> Pipeline:
    return read_pipeline(os.fspath(written(directory, **values)), {}, {})


def records(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    rows = [(b"k", value, "orders", 0, offset) for offset, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
    return frame.coalesce(1).selectExpr("*", "timestamp '2026-01-01' AS timestamp")


def values_of(frame: DataFrame) -> list[bytes]:
    return [bytes(row["value"]) for row in frame.collect()]


SMALL = AvroEncoder(SchemaText(AVRO_SMALL, (), 7), is_framed=True)


def test_avro_and_protobuf_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Avro's bytes become columns, the columns Protobuf's bytes, and those again columns: nothing is lost."""
    given_rows = [order(), order(customer=None, place=None, tags=[])]
    encoder = AvroEncoder(SchemaText(AVRO_ORDER), is_framed=False)
    found = pipeline(
        tmp_path, format="avro", more="schema_file: order.avsc\n    framing: none",
        sink="format: protobuf, schema_file: shop.desc, message: shop.Order, framing: none",
    )  # fmt: skip
    frame = records(spark, [*(encoder.encode(row) for row in given_rows), None])
    columns = decoded_rows(frame, source_of(found))
    assert columns.where("id = 5 and price = 1.5 and counts['x'] = 1 and year(at) = 2026").count() == 2
    deleted = columns.where("_offset = 2").first()
    assert deleted is not None
    assert (deleted["id"], deleted["customer"], deleted["_key"]) == (None, None, "k")
    with pytest.raises(FormatError, match="the schema has no field 'price'; it has id, customer, at, big"):
        encoded_rows(columns, found.sinks[0])
    some = columns.where("_offset < 2").select("id", "customer", "at", "kind", "tags", "counts", "place", "_offset")
    values = values_of(encoded_rows(some.sort("_offset"), found.sinks[0]))
    decoder = ProtobufDecoder(SchemaText(proto_text()), "shop.Order", None, is_framed=False)
    for value, row in zip(values, given_rows, strict=True):
        decoded = decoder.decode(value)
        assert {name: decoded[name] for name in ("id", "customer", "at", "kind", "tags", "place")} == {
            name: row[name] for name in ("id", "customer", "at", "kind", "tags", "place")
        }


def test_columns_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    found = pipeline(tmp_path, format="raw", sink="format: avro, schema_file: small.avsc, framing: none")
    for query, said in (
        ("SELECT 'x' AS id", "the column id is string, the schema's field bigint: cast it in a transform"),
        ("SELECT 1 AS di", "the schema has no field 'di'; it has id"),
        ("SELECT 1 AS _key", "has no column to write"),
    ):
        with pytest.raises(FormatError, match=said):
            encoded_rows(spark.sql(query), found.sinks[0])
    (tmp_path / "other").mkdir()
    order_sink = pipeline(tmp_path / "other", format="raw", sink="format: avro, schema_file: order.avsc, framing: none")
    with pytest.raises(FormatError, match="no column for the schema's field 'at', which has no default"):
        encoded_rows(spark.sql("SELECT 1 AS id"), order_sink.sinks[0])
    # An int is a bigint as well.
    assert values_of(encoded_rows(spark.sql("SELECT 5 AS id"), found.sinks[0])) == [b"\x0a"]
    with pytest.raises(PySparkException, match="a row cannot be written as Avro"):
        encoded_rows(spark.sql("SELECT cast(NULL AS int) AS id"), found.sinks[0]).collect()


def test_bad_values_are_set_aside_or_fail(spark: SparkSession, tmp_path: Path) -> None:
    values = [SMALL.encode({"id": 1}), b"{}", SMALL.encode({"id": 2}) + b"!", None, SMALL.encode({"id": 3})]
    more = "schema_file: small.avsc\n    dead_letters: bad"
    aside = source_of(pipeline(tmp_path, format="avro", more=more, sink="format: text"))
    # The schema's file alone says what the values are: no registry is asked.
    assert aside.format.coding is not None
    aside.format.coding = aside.format.coding._replace(registry=None)
    frame = records(spark, values)
    assert [row["id"] for row in decoded_rows(frame, aside).collect()] == [1, None, 3]
    bad = bad_records(frame, aside).collect()
    told = [{header["key"]: bytes(header["value"]).decode() for header in row["headers"]} for row in bad]
    assert [bytes(row["value"]) for row in bad] == [values[1], values[2]]
    assert [(each["topic"], each["partition"], each["offset"]) for each in told] == [
        ("orders", "0", "1"),
        ("orders", "0", "2"),
    ]
    assert told[0]["error"] == "the value has 2 bytes, too few for a schema id"
    assert told[1]["error"] == "the value is no Avro of the schema: 1 bytes are left"
    aside.sets_aside = False
    with pytest.raises(PySparkException, match=r"orders-0, offset 1: the value has 2 bytes, .*: 7B7D"):
        decoded_rows(frame, aside).select("_offset").collect()


@pytest.mark.slow
def test_a_registry_that_is_down_is_no_bad_record(spark: SparkSession, tmp_path: Path) -> None:
    more = "schema_file: small.avsc\n    dead_letters: bad"
    source = source_of(pipeline(tmp_path, format="avro", more=more, sink="format: text"))
    with pytest.raises(PySparkException, match="the schema registry does not answer at"):
        decoded_rows(records(spark, [SMALL.encode({"id": 1})]), source).collect()
    without_file = source_of(pipeline(tmp_path, format="avro", sink="format: text"))
    with pytest.raises(RegistryFailed, match="does not answer at"):
        decoded_rows(records(spark, []), without_file)


@pytest.mark.slow
def test_a_pipeline_from_avro_to_protobuf_by_a_registry(
    bootstrap_servers: str, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    source, target, bad = new_topic(2), new_topic(2), new_topic(1)
    with fake_registry("ann:secret") as fake:
        schema_id = fake.put(f"{source}-value", {"schema": AVRO_SMALL})
        path = written(
            tmp_path, brokers=bootstrap_servers, url=fake.url, source=source, target=target, format="avro",
            more=f"dead_letters: {bad}", sink="format: protobuf, schema_file: shop.desc, message: shop.Order",
        )  # fmt: skip
        encoder = AvroEncoder(SchemaText(AVRO_SMALL, (), schema_id), is_framed=True)
        with Producer(bootstrap_servers) as producer:
            for value in [*(encoder.encode({"id": number}) for number in range(100)), b"{}"]:
                producer.send(source, value)
        run(path, "run")
        (new_id,) = fake.subjects[f"{target}-value"]
        assert fake.schemas[new_id]["schemaType"] == "PROTOBUF"
    head = new_id.to_bytes(5, "big") + b"\x02\x02"
    values = [value or b"" for value in committed_values(bootstrap_servers, target, 2)]
    assert {value[:7] for value in values} == {head}
    decoder = ProtobufDecoder(SchemaText(proto_text()), "shop.Order", None, is_framed=True)
    assert sorted(decoder.decode(value)["id"] for value in values) == list(range(100))
    assert [record.value for record in committed_records(bootstrap_servers, bad, 1)] == [b"{}"]


def run(path: Path, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", command, os.fspath(path)],
        env={**os.environ, "LOGIN": "ann:secret"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
