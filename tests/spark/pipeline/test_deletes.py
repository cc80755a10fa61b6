"""Rows that delete: change events of Debezium through whole runs, and what each sink makes of such rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource
from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.formats.schemas import framed
from barnabas_spark.pipeline.pipeline_error import FormatError, PipelineError
from barnabas_spark.pipeline.pipeline_file import Pipeline, read_pipeline
from barnabas_spark.pipeline.plan import PipelinePlan
from barnabas_spark.pipeline.rows import DELETED, PLACE_COLUMNS, bad_records, decoded_rows, last_of_each_key
from tests.spark.committed_records import committed_records
from tests.spark.pipeline.coded_schemas import AVRO_SMALL
from tests.spark.pipeline.debezium_events import AVRO_KEY, ENVELOPE, avro_event, event, with_schema
from tests.spark.pipeline.fake_registry import fake_registry
from tests.spark.pipeline.file_parts import planned, source_of, written
from tests.spark.pipeline.pipeline_in_session import run_in_session
from tests.support.documented_code import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_PAGE = (ROOT / "docs" / "pipelines.md").read_text()
FILE = _PAGE.partition("## Change events of Debezium\n\n```yaml\n")[2].partition("```\n")[0]
"""The example of the page, as it stands there."""


class Customers:
    """A pipeline of change events, with what its sinks have."""

    def __init__(self, spark: SparkSession, directory: Path, brokers: str, new_topic: Callable[[int], str]) -> None:
        self._spark = spark
        self._directory = directory
        self.brokers = brokers
        self.source, self.target, self.bad = (new_topic(1) for _ in range(3))
        self._path = directory / "customers.yaml"

    def run(self) -> None:
        text = FILE
        for name, own in (
            ("127.0.0.1:9092", self.brokers), ("topic: shop.public.customers", f"topic: {self.source}"),
            ("topic: customers-now", f"topic: {self.target}"), ("customers-bad", self.bad),
        ):  # fmt: skip
            assert name in text
            text = text.replace(name, own)
        self._path.write_text(text)
        run_in_session(self._spark, os.fspath(self._path), {})

    def produce(self, *events: tuple[int | None, bytes | None]) -> None:
        with Producer(self.brokers) as producer:
            for number, value in events:
                key = None if number is None else json.dumps({"id": number}).encode()
                producer.send(self.source, value, key=key)

    def written(self) -> list[tuple[str, str | None]]:
        """The keys and names of the target's records, in order; None for a tombstone."""
        found = committed_records(self.brokers, self.target, 1)
        return [
            ((record.key or b"").decode(), None if record.value is None else json.loads(record.value)["name"])
            for record in found
        ]

    def table(self) -> dict[int, str]:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{self._directory}/warehouse/catalog.db")
        rows = catalog.load_table("shop.customers").scan().to_arrow().to_pylist()
        return dict(sorted((row["id"], row["name"]) for row in rows))

    def files(self) -> dict[int, str]:
        rows = pq.read_table(self._directory / "current").to_pylist()
        return dict(sorted((row["id"], row["name"]) for row in rows))

    def forget_commits(self) -> None:
        """Leave the checkpoints as a crash does that comes after all sinks, and before Spark's own note."""
        layout = CheckpointLayout(os.fspath(self._directory / "checkpoints" / "customers"))
        for query in ("changes", "to_files"):
            commits = Path(layout.query(query)) / "commits"
            last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
            for name in (f"{last}", f".{last}.crc"):
                (commits / name).unlink()


def created(number: int, name: str) -> tuple[int, bytes]:
    return number, event("c", None, {"id": number, "name": name})


def updated(number: int, name: str) -> tuple[int, bytes]:
    return number, with_schema(event("u", {"id": number}, {"id": number, "name": name}))


def deleted(number: int, *, has_before: bool = True) -> list[tuple[int, bytes | None]]:
    """A delete event, with the tombstone behind it."""
    return [(number, event("d", {"id": number} if has_before else None)), (number, None)]


def test_change_events_are_applied_whenever_the_run_dies(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    customers = Customers(spark, tmp_path, bootstrap_servers, new_topic)
    truncated = event("t")
    customers.produce(
        created(1, "Ann"), created(2, "Bob"), created(3, "Eve"), updated(1, "Anna"), *deleted(2),
        created(4, "Joe"), *deleted(4, has_before=False), created(4, "Jon"), *deleted(9), (None, truncated),
    )  # fmt: skip
    customers.run()
    first = [
        ("1", "Ann"), ("2", "Bob"), ("3", "Eve"), ("1", "Anna"), ("2", None), ("4", "Joe"), ("4", None), ("4", "Jon"),
        ("9", None),
    ]  # fmt: skip
    assert customers.written() == first
    assert customers.table() == customers.files() == {1: "Anna", 3: "Eve", 4: "Jon"}
    (bad,) = committed_records(bootstrap_servers, customers.bad, 1)
    assert (bad.value, b"the truncation of a table" in (dict(bad.headers)["error"] or b"")) == (truncated, True)
    # Deletes of rows that are in the sinks; one that comes back in the same micro-batch.
    customers.produce(*deleted(3), *deleted(1, has_before=False), created(1, "Amy"))
    customers.run()
    second = [*first, ("3", None), ("1", None), ("1", "Amy")]
    assert customers.written() == second
    assert customers.table() == customers.files() == {1: "Amy", 4: "Jon"}
    # The micro-batch before is repeated, and then everything is deleted.
    customers.forget_commits()
    customers.produce(*deleted(1), *deleted(4))
    customers.run()
    assert customers.written() == [*second, ("1", None), ("4", None)]
    assert customers.table() == customers.files() == {}
    # A log cleaner that may remove delete events, and leave their tombstones, is told.
    compacted = ConfigChange("cleanup.policy", ConfigOperation.SET, "compact")
    with Admin(bootstrap_servers) as admin:
        admin.incremental_alter_configs(ConfigResource.topic(customers.source), [compacted])
    with pytest.raises(PipelineError, match=f"customers: topic '{customers.source}' is compacted, so a delete"):
        customers.run()


# -- rows and sinks


@pytest.fixture
def parts(tmp_path: Path) -> Callable[..., Pipeline]:
    """Makes the pipeline of a source and a sink."""

    def made(source: str, sink: str, more: str = "", reads: str = "s") -> Pipeline:
        (tmp_path / "small.avsc").write_text(AVRO_SMALL)
        (tmp_path / "small.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
        path = tmp_path / "parts.yaml"
        path.write_text(
            f"name: parts\nbrokers: a:1\n{more}\nsources: {{s: {{topic: t, {source}}}}}\n"
            f"sinks: {{out: {{from: {reads}, {sink}}}}}\n"
        )
        return read_pipeline(os.fspath(path), {}, {})

    return made


Parts = Callable[..., Pipeline]
JSON_SOURCE = "schema: id BIGINT"


def rows_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id bigint, _operation string")


def records(spark: SparkSession, *rows: tuple[bytes | None, bytes | None]) -> DataFrame:
    places = [(key, value, "t", 0, offset) for offset, (key, value) in enumerate(rows)]
    frame = spark.createDataFrame(places, "key binary, value binary, topic string, partition int, offset bigint")
    return frame.coalesce(1).selectExpr("*", "timestamp '2026-01-01' AS timestamp")


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("", b'{"id":1}'),
        (", format: avro, framing: none, schema_file: small.avsc", b"\x02"),
        (", framing: confluent, schema_id: 258, schema_file: small.json", framed(258, b'{"id":1}')),
    ],
)
def test_a_topic_gets_tombstones(spark: SparkSession, parts: Parts, sink: str, expected: bytes) -> None:
    rows = rows_of(spark, (1, "create"), (1, None), (None, "delete"))
    found = parts(JSON_SOURCE, f"topic: x, key: \"coalesce(string(id), 'gone')\"{sink}").sinks[0]
    stored = written(rows, found).collect()
    values = [row["value"].encode() if isinstance(row["value"], str) else row["value"] for row in stored]
    assert values == [expected, expected, None]
    assert [row["key"] for row in stored] == ["1", "1", "gone"]


def test_rows_that_cannot_be_applied_are_told(spark: SparkSession, parts: Parts) -> None:
    rows = rows_of(spark, (1, "create"), (2, "DELETE"))
    keyed = parts(JSON_SOURCE, "topic: x, key: string(id)").sinks[0]
    with pytest.raises(PySparkException, match="_operation is 'DELETE'; it must be create, update, delete, read or"):
        written(rows, keyed).collect()
    nameless = rows_of(spark, (None, "delete"))
    with pytest.raises(PySparkException, match="a row that deletes has NULL for its key"):
        written(nameless, keyed).collect()
    for sink, said in (
        ("topic: x", "a row that deletes is a tombstone: give the sink a 'key', or rename the column"),
        ("parquet: x", "rows that are appended delete nothing: rename the column to write it as data"),
        ("iceberg: a.b, catalog: w", "rows that are appended delete nothing: give the sink 'upsert_by', or rename"),
    ):
        with pytest.raises(FormatError, match=f"s has the column _operation, and {said}"):
            planned(rows, parts(JSON_SOURCE, sink).sinks[0])
    doubled = rows.join(rows.withColumnRenamed("id", "other"))
    with pytest.raises(FormatError, match="s has 2 columns _operation"):
        planned(doubled, keyed)
    with pytest.raises(FormatError, match="delete_when is bigint: it must be a condition"):
        planned(rows, parts(JSON_SOURCE, "topic: x, key: string(id), delete_when: id").sinks[0])
    assert written(rows, parts(JSON_SOURCE, "console: 5").sinks[0]).count() == 2
    assert written(rows.drop("_operation"), parts(JSON_SOURCE, "topic: x").sinks[0]).count() == 2


@pytest.mark.parametrize(
    ("select", "sink", "is_told"),
    [
        ("SELECT id FROM s", "topic: x", True),
        ("SELECT id FROM s", "parquet: x", True),
        ("SELECT id FROM s", "console: 5", False),
        ("SELECT id FROM s", "topic: x, key: string(id), delete_when: id = 1", False),
        ("SELECT id FROM s WHERE _operation <> 'delete'", "topic: x", False),
        ("SELECT id, _OPERATION AS operation FROM s", "parquet: x", False),
    ],
)
def test_a_transform_that_forgets_what_is_deleted_is_told(
    spark: SparkSession, parts: Parts, select: str, sink: str, is_told: bool
) -> None:
    text = f'transforms: {{t: {{sql: "{select}"}}}}'
    pipeline = parts(f"format: debezium, {JSON_SOURCE}", sink, text, "t")
    layout = CheckpointLayout(pipeline.checkpoints)
    if not is_told:
        assert len(PipelinePlan(spark, pipeline, layout).queries) == 1
        return
    with pytest.raises(
        PipelineError, match=r"sinks\.out: t has no column _operation, so rows that sources\.s says are"
    ):
        PipelinePlan(spark, pipeline, layout)


def test_any_condition_may_delete(spark: SparkSession, parts: Parts) -> None:
    """As for rows that Debezium's ExtractNewRecordState has flattened."""
    rows = spark.sql("SELECT 1 AS id, 'false' AS __deleted UNION ALL SELECT 2, 'true' UNION ALL SELECT 3, NULL")
    keyed = parts(JSON_SOURCE, "topic: x, key: string(id), delete_when: \"__deleted = 'true'\"").sinks[0]
    values = {row["key"]: row["value"] for row in written(rows, keyed).collect()}
    assert values == {"1": '{"id":1,"__deleted":"false"}', "2": None, "3": '{"id":3,"__deleted":null}'}
    table = parts(JSON_SOURCE, "iceberg: a.b, catalog: w, upsert_by: [id], delete_when: id > 1").sinks[0]
    assert [row[DELETED] for row in written(rows.sort("id"), table).collect()] == [
        False, True, True,
    ]  # fmt: skip
    # The NULL values of a plain JSON topic, as the page says.
    plain = records(spark, (b"1", b'{"id": 1}'), (b"2", None))
    decoded_rows(plain, source_of(parts(JSON_SOURCE, "console: 1"))).createOrReplaceTempView("plain")
    gone = spark.sql("SELECT coalesce(id, bigint(_key)) AS id, IF(id IS NULL, 'delete', NULL) AS _operation FROM plain")
    keyed = parts(JSON_SOURCE, "topic: x, key: string(id)").sinks[0]
    assert [tuple(row) for row in written(gone, keyed).collect()] == [
        ("1", '{"id":1}'), ("2", None),
    ]  # fmt: skip
    # The condition counts, and the operation is left out like the record's own columns.
    operations = rows_of(spark, (1, "delete"))
    (row,) = written(operations, table).collect()
    assert row.asDict() == {"id": 1, DELETED: False}
    assert planned(operations, table).left_out == ["_operation"]
    assert planned(operations, keyed).left_out == []


def test_a_source_of_change_events(spark: SparkSession, parts: Parts) -> None:
    key = b'{"id": 1}'
    found = records(
        spark, (key, event("c", None, {"id": 1})), (key, event("d", {"id": 1})), (key, None), (key, b"{}"),
        (b'{"id": 2}', event("r", None, {"id": 2})), (b'{"id": 3}', event("d")),
    )  # fmt: skip
    pipeline = parts(f"format: debezium, {JSON_SOURCE}, dead_letters: bad", "iceberg: a.b, catalog: w, upsert_by: [id]")
    source, sink = source_of(pipeline), pipeline.sinks[0]
    rows = decoded_rows(found, source)
    assert rows.columns == ["id", "_operation", "_key", *PLACE_COLUMNS]
    assert [(row["id"], row["_operation"], row["_offset"]) for row in rows.collect()] == [
        (1, "create", 0), (1, "delete", 1), (2, "read", 4), (3, "delete", 5),
    ]  # fmt: skip
    assert [bytes(row["value"]) for row in bad_records(found, source).collect()] == [b"{}"]
    assert written(rows, sink).columns == ["id", DELETED, *PLACE_COLUMNS]
    assert planned(rows, sink).left_out == ["_key", *PLACE_COLUMNS]
    deleting = source_of(parts(f"format: debezium, {JSON_SOURCE}, dead_letters: bad, tombstones: delete", "console: 1"))
    assert [row["_offset"] for row in decoded_rows(found, deleting).collect()] == [0, 1, 2, 4, 5]
    with pytest.raises(PySparkException, match="t-0, offset 3: the value is no change event of Debezium"):
        decoded_rows(found, source_of(parts(f"format: debezium, {JSON_SOURCE}", "console: 1"))).collect()
    clashing = source_of(parts('format: debezium, schema: "id BIGINT, _operation STRING"', "console: 1"))
    with pytest.raises(FormatError, match="the schema has the column _operation, which is one of the record's own"):
        decoded_rows(found, clashing)
    # The current rows: the last event of key 1 is a tombstone's, of key 3 a delete.
    table = source_of(parts(f"format: debezium, {JSON_SOURCE}, read: table", "console: 1"))
    current = decoded_rows(last_of_each_key(found.where("offset <> 3")), table)
    assert [(row["id"], row["_key"]) for row in current.collect()] == [(2, '{"id": 2}')]
    assert "_operation" not in current.columns


def test_avro_events_and_json_in_frames_by_a_registry(spark: SparkSession, parts: Parts) -> None:
    with fake_registry() as fake:
        more = f'registry: {{url: "{fake.url}"}}'
        value_id, key_id = fake.put("t-value", {"schema": ENVELOPE}), fake.put("t-key", {"schema": AVRO_KEY})
        key = framed(key_id, b"\xd0\x0f")
        found = records(
            spark, (key, avro_event("c", None, {"id": 1_000, "name": "Ann"}, value_id)),
            (key, avro_event("d", schema_id=value_id)), (key, None),
        )  # fmt: skip
        source = source_of(parts("format: debezium, encoding: avro", "console: 1", more))
        rows = decoded_rows(found, source)
        assert [tuple(row)[:4] for row in rows.collect()] == [
            (1_000, "Ann", "create", key), (1_000, None, "delete", key),
        ]  # fmt: skip
        # The rows as JSON in frames, by a schema that is made of the columns; and read again.
        sink = parts(JSON_SOURCE, "topic: x, key: string(id), framing: confluent", more).sinks[0]
        found = written(rows, sink).collect()
        (json_id,) = fake.subjects["x-value"]
        assert fake.schemas[json_id]["schemaType"] == "JSON"
        assert [row["value"] and bytes(row["value"]) for row in found] == [
            framed(json_id, b'{"id":1000,"name":"Ann"}'), None,
        ]  # fmt: skip
        again = records(spark, *((None, row["value"]) for row in found), (None, framed(value_id, b"{}")))
        framed_source = parts(
            'schema: "id BIGINT, name STRING", framing: confluent, dead_letters: bad', "console: 1", more
        )
        assert [tuple(row)[:2] for row in decoded_rows(again, source_of(framed_source)).collect()] == [
            (1_000, "Ann"), (None, None),
        ]  # fmt: skip
        (bad,) = bad_records(again, source_of(framed_source)).collect()
        assert bytes(bad["headers"][0]["value"]).decode() == f"schema {value_id} is of type AVRO, not JSON"
        strict = parts(JSON_SOURCE, "topic: x, framing: confluent, schema_file: small.json", more).sinks[0]
        texts = spark.sql("SELECT 'one' AS id")
        with pytest.raises(PySparkException, match=r"a row cannot be written as JSON of the schema: \$\.id: 'one' is"):
            written(texts, strict).collect()
