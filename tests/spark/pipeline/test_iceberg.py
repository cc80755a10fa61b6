"""Iceberg tables as sinks: what pyiceberg reads of them after runs, crashes and mistakes."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, types
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.pipeline_error import IcebergError, PipelineError, RunFailed
from barnabas_spark.pipeline.rows import DELETED, PLACE_COLUMNS
from barnabas_spark.pipeline.sinks.iceberg_sink import local_catalog
from barnabas_spark.pipeline.sinks.sink import QueryPlace
from tests.spark.pipeline.pipeline_in_session import run_in_session

if importlib.util.find_spec("pyiceberg") is None:
    if os.environ.get("CI"):
        raise RuntimeError("pyiceberg is not installed, and under CI no test is left out")
    pytest.skip("pyiceberg is not installed: pip install 'barnabas[iceberg]'", allow_module_level=True)

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from barnabas_spark.pipeline.sinks.iceberg_table import IcebergTable, IcebergTarget, last_changes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_FILE = """\
name: shop
brokers: {brokers}
sources:
  orders:
    topic: {topic}
    schema: id BIGINT, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>
    options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 10}}
transforms:
  wanted: {{sql: "{sql}"}}
sinks:
  out: {{from: wanted, iceberg: shop.orders, catalog: {catalog}, {more}}}
"""
_SINK_LINE = 11


class Tables:
    """A pipeline with one Iceberg sink, run in the tests' session, and its table as pyiceberg reads it."""

    def __init__(self, spark: SparkSession, directory: Path, brokers: str, topic: str) -> None:
        self._spark = spark
        self._topic = topic
        self.directory = directory
        self.brokers = brokers
        self.catalog: Any = "warehouse"
        self.sql = "SELECT id, customer, amount, at, tags FROM orders"
        self.more = "mode: append"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoints" / "shop" / "queries" / "out"

    @property
    def table(self) -> Table:
        catalog = local_catalog(os.fspath(self.directory / "warehouse"))
        return load_catalog("default", **catalog).load_table("shop.orders")

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan().to_arrow().to_pylist()
        return found

    def ids(self) -> list[int]:
        return sorted(int(row["id"]) for row in self.rows())

    def produce(self, numbers: range, **more: object) -> None:
        with Producer(self.brokers) as producer:
            for number in numbers:
                order = {"id": number, "customer": f"c{number % 3}", "amount": number, **more}
                producer.send(self._topic, json.dumps(order).encode())

    def run(self) -> None:
        path = self.directory / "shop.yaml"
        path.write_text(
            _FILE.format(
                brokers=self.brokers, topic=self._topic, sql=self.sql, catalog=json.dumps(self.catalog), more=self.more
            )
        )
        run_in_session(self._spark, os.fspath(path), {})

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a crash does that comes after the table's commit and before Spark's own note."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]) -> Tables:
    return Tables(spark, tmp_path, bootstrap_servers, new_topic(1))


def changes(*rows: tuple[Any, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the rows (id, name, is deleted, topic, partition, offset, timestamp) do to a table whose key is id."""
    names = ("id", "name", DELETED, *PLACE_COLUMNS)[: len(rows[0])]
    found = pa.table({name: [row[index] for row in rows] for index, name in enumerate(names)})
    last = last_changes(found, ["id"], "micro-batch 3")
    return last.upserted.to_pylist(), last.deleted.to_pylist()


def at(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def test_the_last_row_of_a_key_counts() -> None:
    assert changes(
        (1, "inserted", False, "t", 0, 1, at(900)), (1, "deleted", True, "t", 0, 2, at(100)),
        (2, "deleted", True, "t", 0, 3, at(1)), (2, "inserted", False, "t", 0, 4, at(1)),
        # Rows may come in any order, and from several partitions.
        (3, "last", False, "t", 0, 9, at(5)), (3, "first", True, "t", 0, 8, at(5)),
        (4, "old", False, "t", 0, 50, at(1_000)), (4, "moved", True, "t", 3, 0, at(2_000)),
        (5, "one", False, "t", 0, 6, at(-1)),
        # Copies of one record.
        (6, "same", False, "t", 0, 7, at(1)), (6, "same", False, "u", 0, 7, at(1)),
    ) == (
        [{"id": 2, "name": "inserted"}, {"id": 3, "name": "last"}, {"id": 5, "name": "one"}, {"id": 6, "name": "same"}],
        [{"id": 1}, {"id": 4}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, "a", False), (1, "b", True)], "2 rows for id = 1, and upsert_by takes one of each key: keep the columns"),
        ([(None, "a", True)], "has a NULL in 'id', a column of upsert_by"),
        (
            [(1, "a", False, "t", 0, 5, at(1)), (1, "b", False, "t", 0, 5, at(1))],
            "2 rows for id = 1, made of one record, t-0, offset 5: which of them counts cannot be told",
        ),
        (
            [(1, "a", False, "t", 0, 5, at(1)), (1, "a", True, "t", 1, 6, at(1))],
            r"of t-\d, offset \d and t-\d, offset \d: which of these records is the last cannot be told",
        ),
        (
            [(1, "a", False, "t", 0, 5, at(-1)), (1, "b", False, "t", 1, 6, at(1))],
            r"of t-0, offset 5 and t-1, offset 6: which of these records is the last cannot be told",
        ),
    ],
)
def test_a_last_row_that_cannot_be_told(rows: list[tuple[Any, ...]], said: str) -> None:
    with pytest.raises(IcebergError, match=f"^micro-batch 3 .*{said}"):
        changes(*rows)


class ArrowRows:
    """The rows of a micro-batch without Spark, as far as a table of Iceberg's asks for them."""

    def __init__(self, schema: types.StructType, rows: list[dict[str, Any]]) -> None:
        self.schema = schema
        self.columns = schema.fieldNames()
        self._rows = rows

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, to_arrow_schema(self.schema, timezone="UTC"))


@pytest.mark.parametrize(
    ("keys", "partitions"),
    [(("shop", "day", "number"), ("shop",)), (("at",), ()), (("price", "raw"), ())],
)
def test_rows_are_deleted_by_keys_of_all_kinds(
    tmp_path: Path, keys: tuple[str, ...], partitions: tuple[str, ...]
) -> None:
    columns = types.StructType()
    for name, kind in (
        ("shop", types.StringType()), ("day", types.DateType()), ("number", types.IntegerType()),
        ("at", types.TimestampType()), ("price", types.DecimalType(9, 2)), ("raw", types.BinaryType()),
        ("name", types.StringType()),
    ):  # fmt: skip
        columns = columns.add(name, kind)
    directory = os.fspath(tmp_path / "warehouse")
    catalog = local_catalog(directory)
    (tmp_path / "metadata").write_text('{"id": "query"}')
    place = QueryPlace(os.fspath(tmp_path), 0, "", lambda *_: None)
    rows: Any = ArrowRows(columns, [])
    target = IcebergTarget("shop.sales", catalog, directory, directory, keys, partitions, {}, is_replaced=False)
    table = IcebergTable(target, rows)
    table.prepare(create=True)

    def row(number: int, name: str | None, *, is_deleted: bool = False) -> dict[str, Any]:
        found = {
            "shop": f"s{number % 2}", "day": dt.date(2026, 1, 1 + number), "number": number % 3, "at": at(number),
            "price": Decimal(number), "raw": bytes([number]), "name": name, DELETED: is_deleted,
        }  # fmt: skip
        # A row that is deleted has its key, and perhaps nothing else.
        return found if not is_deleted else {each: found[each] for each in (*keys, DELETED)}

    def write(batch: int, *given: dict[str, Any]) -> dict[int, str]:
        written: Any = ArrowRows(
            types.StructType([*columns.fields, types.StructField(DELETED, types.BooleanType())]), [*given]
        )
        table.write(written, batch, place)
        found = load_catalog("default", **catalog).load_table("shop.sales").scan().to_arrow().to_pylist()
        return {each["day"].day - 1: each["name"] for each in found}

    # Nothing is there yet.
    assert write(0, row(1, None, is_deleted=True)) == {}
    assert write(1, *(row(number, "new") for number in range(6))) == dict.fromkeys(range(6), "new")
    gone = [row(number, None, is_deleted=True) for number in (1, 4, 9)]
    assert write(2, *gone, row(2, "changed"), row(7, "new")) == {0: "new", 2: "changed", 3: "new", 5: "new", 7: "new"}
    assert write(3, row(1, "back"), row(7, None, is_deleted=True)) == {
        0: "new", 1: "back", 2: "changed", 3: "new", 5: "new",
    }  # fmt: skip
    # A repeated micro-batch deletes nothing again.
    assert write(2, *gone, row(0, None, is_deleted=True)).keys() == {0, 1, 2, 3, 5}


def test_a_micro_batch_is_in_the_table_once_whenever_the_run_dies(tables: Tables) -> None:
    tables.more = "partition_by: [customer], options: {comment: orders}"
    tables.produce(range(15), at="2026-01-02T03:04:05Z", tags=["a", None])
    tables.run()
    assert tables.ids() == list(range(15))
    first = next(row for row in tables.rows() if row["id"] == 7)
    assert (first["customer"], str(first["amount"]), first["tags"]) == ("c1", "7.00", ["a", None])
    assert first["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert [str(field.name) for field in tables.table.spec().fields] == ["customer"]
    assert tables.table.properties["comment"] == "orders"
    written = tables.table.metadata.current_snapshot_id
    # After the commit to the table and before the checkpoint's: the micro-batch is repeated, and not written again.
    tables.forget_commit(1)
    tables.run()
    assert tables.table.metadata.current_snapshot_id == written
    # The next micro-batch is another.
    tables.produce(range(15, 20))
    tables.run()
    assert tables.ids() == list(range(20))
    summaries = [snapshot.summary for snapshot in tables.table.snapshots()]
    assert [summary["barnabas.batch-id"] for summary in summaries if summary is not None] == ["0", "1", "2"]


@pytest.mark.slow
def test_a_commit_that_fails_leaves_nothing_and_the_next_run_writes_it(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.produce(range(5))

    def refuse(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.catalog.sql.SqlCatalog.commit_table", refuse)
        # The table itself is made by a commit.
        with pytest.raises(
            PipelineError, match=r"shop\.orders in .*warehouse cannot be used: OSError: the store is away"
        ):
            tables.run()
    tables.run()
    tables.produce(range(5, 8))
    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.catalog.sql.SqlCatalog.commit_table", refuse)
        with pytest.raises(RunFailed, match=r"out failed in micro-batch 1.*cannot be used: OSError: the store is away"):
            tables.run()
    assert tables.ids() == list(range(5))
    tables.run()
    assert tables.ids() == list(range(8))


@pytest.mark.slow
def test_rows_replace_those_of_their_key(tables: Tables) -> None:
    tables.sql = "SELECT customer, count(*) AS orders, max(id) AS id FROM orders GROUP BY customer"
    tables.more = "mode: update, upsert_by: [customer]"
    tables.produce(range(10))
    tables.run()
    tables.produce(range(10, 20), customer="c1")
    tables.run()
    counts = {row["customer"]: row["orders"] for row in tables.rows()}
    assert counts == {"c0": 4, "c1": 13, "c2": 3}
    tables.more = "mode: update, upsert_by: [nothing]"
    with pytest.raises(PipelineError, match=r"there is no column 'nothing'; there are customer, orders, id"):
        tables.run()


@pytest.mark.slow
def test_a_key_with_two_rows_is_told(tables: Tables) -> None:
    tables.more = "upsert_by: [customer]"
    tables.produce(range(2))
    tables.run()
    tables.produce(range(3, 5), customer="c7")
    with pytest.raises(RunFailed, match=r"micro-batch 1 has 2 rows for customer = 'c7', and upsert_by takes one of"):
        tables.run()


@pytest.mark.slow
def test_mode_complete_replaces_all_rows(tables: Tables) -> None:
    tables.sql = "SELECT customer, count(*) AS id FROM orders GROUP BY customer"
    tables.more = "mode: complete"
    tables.produce(range(10))
    tables.run()
    tables.produce(range(10, 20), customer="c1")
    tables.run()
    assert {row["customer"]: row["id"] for row in tables.rows()} == {"c0": 4, "c1": 13, "c2": 3}


def test_a_table_that_does_not_fit_is_told_before_anything_is_written(tables: Tables) -> None:
    tables.produce(range(3))
    tables.run()
    tables.sql = "SELECT string(id) AS id, customer, float(amount) AS amount, 1 AS more FROM orders"
    with pytest.raises(PipelineError) as caught:
        tables.run()
    (problem,) = caught.value.problems
    assert problem.line == _SINK_LINE
    assert problem.message == (
        "sinks.out: the Iceberg table shop.orders does not fit: column 'id' is long in the table, and string in the"
        " rows; column 'amount' is decimal(10, 2) in the table, and float in the rows; the table has no column 'more'"
    )
    # Fewer columns, and types that widen, do.
    tables.sql = "SELECT int(id) AS id, customer FROM orders"
    tables.produce(range(3, 6))
    tables.run()
    assert tables.ids() == list(range(6))
    tables.sql = "SELECT id, INTERVAL 1 DAY AS period FROM orders"
    with pytest.raises(PipelineError, match=r"column 'period' is interval day, which Iceberg tables cannot have"):
        tables.run()


def test_any_catalog_of_pyiceberg_serves_and_its_password_is_not_shown(tables: Tables) -> None:
    tables.catalog = {"type": "rest", "uri": "http://reader:secret@127.0.0.1:9/api"}
    with pytest.raises(PipelineError) as caught:
        tables.run()
    (problem,) = caught.value.problems
    assert "shop.orders in the catalog http://127.0.0.1:9/api cannot be used: " in problem.message
    assert "secret" not in problem.message
