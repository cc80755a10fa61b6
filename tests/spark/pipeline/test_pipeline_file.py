"""What a pipeline file may say, and the line that each mistake is told with."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from barnabas.cli.pipeline import TEMPLATE
from barnabas_spark.pipeline.entry import RegistryAddress
from barnabas_spark.pipeline.formats.debezium_format import DebeziumFormat
from barnabas_spark.pipeline.formats.json_format import JsonFormat
from barnabas_spark.pipeline.formats.schema_formats import AvroFormat
from barnabas_spark.pipeline.formats.value_format import ValueCoding
from barnabas_spark.pipeline.json_schema import PIPELINE_SCHEMA
from barnabas_spark.pipeline.pipeline_error import PipelineError
from barnabas_spark.pipeline.pipeline_file import Pipeline, read_pipeline
from barnabas_spark.pipeline.sinks.iceberg_sink import IcebergSink
from barnabas_spark.pipeline.sinks.sink import ConsoleSink
from barnabas_spark.pipeline.sinks.topic_sink import TopicSink
from barnabas_spark.pipeline.sources import FileSource, TopicSource, Watermark
from tests.spark.pipeline.file_parts import of_kind, source_of

Read = Callable[..., Pipeline]

GOOD = """\
name: shop
brokers: a:1
sources:
  orders:
    topic: orders
    schema: id BIGINT
transforms:
  large:
    sql: |
      SELECT id
      FROM orders
sinks:
  out:
    from: large
    topic: large
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str, environment: dict[str, str] | None = None, **parameters: str) -> Pipeline:
        path = tmp_path / "shop.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return read_pipeline(os.fspath(path), parameters, environment or {})

    return read


def said(read: Read, text: str, **parameters: str) -> list[tuple[int, str]]:
    with pytest.raises(PipelineError) as caught:
        read(text, **parameters)
    assert str(caught.value).startswith(f"{caught.value.path}:{caught.value.problems[0].line}: ")
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_aliases_and_nesting_are_bounded(read: Read) -> None:
    """Ten aliases of ten aliases stand for billions of values in a few lines; deep lists exhaust the stack."""
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join(10 * [f'*a{level - 1}'])}]\n" for level in range(1, 10)
    )
    ((_, message),) = said(read, GOOD + laughs)
    assert message == "aliases make more than 20,000 values of this file: write fewer of them"
    ((line, message),) = said(read, GOOD + "deep: " + 60 * "[" + 60 * "]" + "\n")
    assert (line, message) == (16, "lists and maps are nested deeper than 50 levels")
    ((line, message),) = said(read, GOOD + "deep: " + 100_000 * "[" + "\n")
    assert (line, message) == (16, "lists and maps are nested deeper than 50 levels")
    ((_, message),) = said(read, GOOD + "# " + 4_000_000 * "x")
    assert message == "the file has more than 4,000,000 characters"
    shared = GOOD.replace("topic: orders\n    schema", "topic: orders\n    options: &shared {a: 1}\n    schema")
    assert read(shared.replace("topic: large", "topic: large\n    options: *shared")).sinks[0].options == {"a": "1"}


def test_strict_and_names_of_topics(read: Read) -> None:
    assert source_of(read(GOOD)).format.is_strict
    assert not source_of(
        read(GOOD.replace("schema: id BIGINT", "schema: id BIGINT\n    strict: false"))
    ).format.is_strict
    assert said(read, GOOD.replace("schema: id BIGINT", "format: text\n    strict: false")) == [
        (7, "'strict' has no meaning for a source of format text")
    ]
    assert said(read, GOOD.replace("topic: large", "topic: large,small")) == [
        (15, "sinks.out.topic is 'large,small'; it must be letters, digits, '.', '_' and '-'")
    ]
    with pytest.raises(PipelineError, match=r"dead_letters is '\[bad\]'"):
        read(GOOD.replace("schema: id BIGINT", "schema: id BIGINT\n    dead_letters: '[bad]'"))


def test_the_published_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(PIPELINE_SCHEMA)


def test_a_file_and_its_defaults(read: Read, tmp_path: Path) -> None:
    pipeline = read(GOOD)
    assert (pipeline.name, pipeline.trigger, pipeline.ends_by_itself) == ("shop", "available-now", True)
    assert pipeline.checkpoints == os.fspath(tmp_path / "checkpoints" / "shop")
    source, sink = of_kind(pipeline.sources[0], TopicSource), of_kind(pipeline.sinks[0], TopicSink)
    (transform,) = pipeline.transforms
    assert (source.topic, source.brokers, source.key_is_text, source.is_table) == ("orders", "a:1", True, False)
    assert source.format.NAME == "json"
    assert (transform.sql, transform.line, transform.text_line) == ("SELECT id\nFROM orders\n", 8, 10)
    assert (sink.reads, sink.mode, sink.is_exactly_once, sink.line) == ("large", "append", True, 13)


def test_init_writes_a_file_that_is_right(read: Read) -> None:
    pipeline = read(TEMPLATE.format(name="new"), brokers="b:2")
    assert pipeline.name == "new"
    assert pipeline.sources[0].brokers == "b:2"


def test_everything_a_source_and_a_sink_can_have(read: Read, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("")
    (tmp_path / "query.sql").write_text("SELECT 1")
    pipeline = read(
        """\
        name: shop
        checkpoints: /var/state
        trigger: 10 seconds
        spark: {cores: 1, memory: 2g, settings: {spark.sql.shuffle.partitions: 3, spark.ui.enabled: true}}
        sources:
          orders:
            pattern: orders-.*
            brokers: b:1
            format: raw
            key: binary
            headers: true
            watermark: {column: _timestamp, delay: 10 minutes}
            dead_letters: bad
            options: {maxOffsetsPerTrigger: 10, failOnDataLoss: false}
          files: {parquet: in/files, schema: id INT}
        transforms:
          a: {python: "steps.py:enrich", inputs: [orders, files]}
          b: {sql_file: query.sql}
        sinks:
          x: {from: b, parquet: out, partition_by: [day], mode: complete}
          y: {from: orders, console: 5, mode: update}
          w: {from: orders, topic: v, brokers: c:1, mode: update, query: y}
          z: {from: a, topic: t, brokers: c:1, format: text, key: id, delivery: at-least-once}
        """
    )
    orders, files = pipeline.sources
    assert orders.watermark == Watermark("_timestamp", "10 minutes")
    assert orders.options == {"maxOffsetsPerTrigger": "10", "failOnDataLoss": "false"}
    assert of_kind(orders, TopicSource).format.NAME == "raw"
    assert of_kind(files, FileSource).directory == os.fspath(tmp_path / "in" / "files")
    assert pipeline.spark.settings == {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"}
    assert pipeline.transforms[0].inputs == ("orders", "files")
    assert pipeline.transforms[1].text_path == os.fspath(tmp_path / "query.sql")
    assert [sink.what for sink in pipeline.sinks] == [
        f"files of {tmp_path}/out", "the console", "topic v", "topic t",
    ]  # fmt: skip
    assert [sink.query for sink in pipeline.sinks] == ["x", "y", "y", "z"]
    assert not of_kind(pipeline.sinks[3], TopicSink).is_exactly_once


def test_where_schemas_are(read: Read, tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_text("")
    pipeline = read(
        """\
        name: shop
        brokers: a:1
        registry: {url: "http://r:8081", login: "${env:LOGIN:-}"}
        sources:
          orders: {topic: orders, format: avro}
          bare: {pattern: x.*, format: protobuf, framing: none, schema_file: order.desc, message: shop.Order}
        sinks:
          out: {from: orders, topic: t, format: avro, subject: shop.Order}
        """,
        {"LOGIN": "ann:secret"},
    )
    orders, bare = (of_kind(source, TopicSource).format for source in pipeline.sources)
    registry = RegistryAddress("http://r:8081", "ann:secret")
    assert orders.coding == ValueCoding(None, None, "orders-value", registry, True, None)
    file = os.fspath(tmp_path / "order.desc")
    assert bare.coding == ValueCoding(file, "shop.Order", None, None, False, None)
    assert of_kind(pipeline.sinks[0], TopicSink).format.coding == ValueCoding(
        None, None, "shop.Order", registry, True, None
    )


def test_change_events_and_json_in_frames(read: Read, tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text("{}")
    pipeline = read(
        """\
        name: shop
        brokers: a:1
        registry: {url: "http://r:8081"}
        sources:
          plain: {topic: a, format: debezium, schema: id BIGINT}
          avro: {pattern: b.*, format: debezium, encoding: avro, subject: b-value, tombstones: delete}
          text: {topic: c, format: debezium, encoding: avro, key: string}
          framed: {topic: d, format: debezium, schema: id BIGINT, framing: confluent}
          table: {topic: a, format: debezium, schema: id BIGINT, read: table}
          json: {topic: e, schema: id BIGINT, framing: confluent}
        sinks:
          x: {from: plain, topic: f, key: string(id), framing: confluent}
          y: {from: json, topic: f, framing: confluent, subject: large, schema_file: large.json}
          z: {from: json, iceberg: a.b, catalog: w, upsert_by: [id], delete_when: id < 0}
        """
    )
    plain, avro, text, framed, table, plain_json = (of_kind(source, TopicSource) for source in pipeline.sources)
    registry = RegistryAddress("http://r:8081", None)
    assert isinstance(of_kind(plain.format, DebeziumFormat).events, JsonFormat)
    assert (plain.format.tombstones, plain.format.coding, plain.key_is_text) == (None, None, True)
    assert isinstance(of_kind(avro.format, DebeziumFormat).events, AvroFormat)
    assert (avro.format.tombstones, avro.key_is_text) == ("delete", False)
    assert avro.format.coding == ValueCoding(None, None, "b-value", registry, True, None)
    assert (text.key_is_text, table.is_table) == (True, True)
    assert framed.format.coding == plain_json.format.coding == ValueCoding(None, None, None, registry, True, None)
    assert isinstance(plain_json.format, JsonFormat)
    x, y = (of_kind(sink, TopicSink) for sink in pipeline.sinks[:2])
    z = of_kind(pipeline.sinks[2], IcebergSink)
    assert x.format.coding == ValueCoding(None, None, "f-value", registry, True, None)
    assert y.format.coding == ValueCoding(os.fspath(tmp_path / "large.json"), None, "large", registry, True, None)
    assert (z.key_columns, z.delete_when) == (("id",), "id < 0")


def test_the_connection_counts_for_topics_at_the_pipeline_s_brokers_alone(read: Read) -> None:
    connection = "brokers: a:1\nconnection: {kafka.security.protocol: SSL, kafka.client.id: shop}"
    text = GOOD.replace("brokers: a:1", connection)
    pipeline = read(text.replace("topic: large", "topic: large\n    options: {kafka.client.id: out}"))
    assert pipeline.sources[0].options == {"kafka.security.protocol": "SSL", "kafka.client.id": "shop"}
    assert pipeline.sinks[0].options == {"kafka.security.protocol": "SSL", "kafka.client.id": "out"}
    assert read(text.replace("topic: large", "topic: large\n    brokers: b:1")).sinks[0].options == {}
    assert read(text.replace("topic: large", "parquet: out")).sinks[0].options == {}
    ((line, message),) = said(read, GOOD.replace("brokers: a:1", "brokers: a:1\nconnection: {security.protocol: SSL}"))
    assert line == 3
    assert "security.protocol" in message


def test_parameters_and_environment(read: Read) -> None:
    text = GOOD.replace("brokers: a:1", "brokers: ${host}:${env:PORT:-9092}\nparameters: {host: null, rows: 5, f: x}")
    text = text.replace("from: large\n    topic: large", "from: ${f}\n    console: ${rows}").replace("large:", "x:")
    text = text.replace("SELECT id", "SELECT '$${id}'")
    pipeline = read(text, {"PORT": ""}, host="h")
    assert pipeline.sources[0].brokers == "h:9092"
    assert of_kind(pipeline.sinks[0], ConsoleSink).rows == 5
    assert pipeline.transforms[0].sql == "SELECT '${id}'\nFROM orders\n"
    assert of_kind(read(text, {"PORT": "1"}, host="h", rows="7").sinks[0], ConsoleSink).rows == 7
    assert said(read, text) == [(2, "parameter 'host' has no value: give it with --parameter host=VALUE")]
    ((line, message),) = said(read, text, hosts="h")
    assert (line, message) == (3, "--parameter hosts: the file does not declare it under 'parameters'")
    ((line, message),) = said(read, GOOD.replace("a:1", "${env:NOT_SET}"))
    assert (line, message.split(":")[0]) == (2, "the environment variable 'NOT_SET' is not set")
    ((line, message),) = said(read, text.replace("${host}", "${hots}"), host="h")
    assert (line, message.split(" (")[0]) == (2, "parameter 'hots' is not declared; did you mean 'host'?")


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("name: shop", "name: [", 3, "not YAML: expected"),
        ("name: shop", "name: !!python/name:os.system x", 1, "is not read"),
        ("name: shop", "name: sh op", 1, "name is 'sh op'; it must be letters, digits"),
        ("name: shop\n", "", 1, "'name' is missing in the file"),
        ("brokers: a:1", "broker: a:1", 2, "the file has no key 'broker'; did you mean 'brokers'?"),
        ("brokers: a:1", "name: x", 2, "'name' stands here and in line 1"),
        ("brokers: a:1\n", "", 3, "sources.orders needs 'brokers', here or at the top"),
        ("topic: orders", "topc: orders", 5, "sources.orders has no key 'topc'; did you mean 'topic'?"),
        ("topic: orders", "topic: 5", 5, "sources.orders.topic is 5; it must be a text"),
        (
            "topic: orders",
            "read: stream",
            4,
            "sources.orders needs exactly one of topic, pattern, parquet; it has none",
        ),
        ("topic: orders", "topic: o\n    pattern: p", 4, "it has topic and pattern"),
        (
            "topic: orders",
            "topic: o\n    format: jsn",
            6,
            "'jsn'; it must be json or text or raw or avro or protobuf or debezium; did",
        ),
        ("topic: orders", "topic: o\n    format: raw", 7, "'schema' has no meaning for a source of format raw"),
        ("topic: orders", "parquet: o\n    headers: true", 6, "'headers' has no meaning for a source of files"),
        ("topic: orders", "topic: o\n    message: m", 6, "'message' has no meaning for a source of format json"),
        ("topic: orders\n    schema: id BIGINT", "topic: o\n    format: avro", 4, "needs 'schema_file', or 'registry'"),
        (
            "topic: orders\n    schema: id BIGINT",
            "pattern: o\n    format: avro\nregistry: {url: x}",
            7,
            "'x' must begin",
        ),
        (
            "topic: orders\n    schema: id BIGINT",
            "topic: o,p\n    format: avro\nregistry: {url: 'http://x'}",
            4,
            "sources.orders needs 'subject', the schema's name in the registry: there are several topics",
        ),
        ("topic: large", "topic: x\n    format: avro\n    schema_file: no.avsc", 17, "there is no file"),
        ("topic: large", "topic: x\n    format: protobuf\n    framing: none\n    schema_id: 7", 18, "framing: none"),
        ("topic: large", "topic: x\n    format: avro\n    schema_file: shop.yaml", 13, "needs 'registry' at the top,"),
        ("    schema: id BIGINT\n", "", 4, "sources.orders needs 'schema', the columns of its JSON"),
        ("  orders:\n", "  or-ders:\n", 4, "'or-ders' is no name"),
        ("  large:\n", "  orders:\n", 8, "'orders' is the name of a source already"),
        ("from: large", "from: larg", 14, "no source or transform 'larg' above; there are orders, large"),
        ("topic: large", "delta: large", 15, "Delta tables are not written: "),
        ("topic: large", "iceberg: large\n    catalog: x", 15, "'large' must be NAMESPACE.TABLE"),
        ("topic: large", "iceberg: a.large", 13, "sinks.out needs 'catalog': a directory, or"),
        ("topic: large", "iceberg: a.b\n    catalog: x\n    mode: update", 17, "need 'upsert_by', the columns of"),
        ("topic: large", "topic: x\n    upsert_by: [id]", 16, "'upsert_by' has no meaning for a sink that writes no"),
        ("schema: id BIGINT", "format: debezium", 4, "sources.orders needs 'schema', the columns of its rows, such as"),
        ("schema: id BIGINT", "format: debezium\n    encoding: avro", 4, "needs 'schema_file', or 'registry'"),
        ("schema:", "format: debezium\n    encoding: avro\n    schema:", 8, "no meaning for a source of Avro, whose"),
        ("schema:", "format: debezium\n    encoding: xml\n    schema:", 7, "'xml'; it must be json or avro"),
        (
            "schema:",
            "format: debezium\n    strict: false\n    schema:",
            7,
            "debezium, which is always strict",
        ),
        ("schema:", "format: debezium\n    schema_id: 5\n    schema:", 7, "sources.orders has no key 'schema_id'"),
        ("schema:", "tombstones: drop\n    schema:", 6, "'tombstones' has no meaning for a source of format json"),
        ("schema:", "encoding: avro\n    schema:", 6, "'encoding' has no meaning for a source of format json"),
        ("schema:", "framing: confluent\n    strict: false\n    schema:", 7, "JSON in a frame is always read strictly"),
        ("schema:", "framing: confluent\n    subject: x\n    schema:", 7, "format json, whose columns are in 'schema'"),
        ("topic: large", "topic: x\n    framing: confluent", 13, "needs 'registry' at the top, 'schema_id', or"),
        ("topic: large", "topic: x\n    schema_file: x", 16, "of format json without 'framing: confluent'"),
        ("topic: large", "topic: x\n    format: debezium", 16, "or avro or protobuf"),
        ("topic: large", "topic: x\n    delete_when: id = 1", 16, "a row that deletes is a tombstone, which needs a"),
        (
            "topic: large",
            "parquet: x\n    delete_when: id = 1",
            16,
            "a sink that cannot delete: of Iceberg, ",
        ),
        ("topic: large", "console: 5\n    delete_when: id = 1", 16, "'delete_when' has no meaning for a sink that"),
        ("topic: large", "console: 0", 15, "sinks.out.console: 0 is less than the minimum of 1"),
        ("topic: large", "parquet: x\n    mode: update", 16, "files cannot be updated"),
        ("topic: large", "parquet: x\n    key: id", 16, "'key' has no meaning for a sink that writes no topic"),
        (
            "topic: large",
            "topic: x\n  two: {from: orders, console: 1, query: out}",
            16,
            "orders, and sinks.out of the same",
        ),
        ("topic: large", "topic: x\n  two: {from: large, console: 1, query: out, mode: update}", 16, "has append"),
        ("topic: large", "topic: x\n    query: a-b", 16, "'a-b'; it must be letters, digits and _, a letter first"),
        ("sql: |", "python: nofile.py:run\n    inputs: [orders]\n    sqll: |", 11, "has no key 'sqll'"),
        ("sql: |\n      SELECT id\n      FROM orders", "python: no.py:run\n    inputs: [out]", 9, "there is no file "),
        ("sql: |\n      SELECT id\n      FROM orders", "sql_file: no.sql", 9, "no.sql: No such file"),
        ("sinks:", "sinks: {}\nx:", 12, "sinks is empty"),
        ("sources:", "sources: &a\n  b: *a\nx:", 4, "an alias stands for a value that contains it"),
    ],
)
def test_mistakes_are_told_with_their_line(read: Read, before: str, after: str, line: int, message: str) -> None:
    assert before in GOOD
    problems = said(read, GOOD.replace(before, after, 1))
    assert [problem for problem in problems if problem[0] == line and message in problem[1]], problems


def test_all_mistakes_are_told_at_once(read: Read) -> None:
    text = GOOD.replace("from: large", "from: nothing").replace("topic: large", "topic: x\n    partition_by: [x]")
    assert [line for line, _ in said(read, text)] == [14, 16]


def test_bytes_that_are_no_text(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"name: shop\nbrokers: \xff\n")
    with pytest.raises(PipelineError, match=r"x\.yaml:2: not UTF-8: byte 0xff"):
        read_pipeline(os.fspath(path), {}, {})
