"""The Iceberg table of one sink: made if it is missing, checked against the rows, written once per micro-batch.

Made by `iceberg_sink` on the driver's main thread; `write` is called by Spark's thread for the query's micro-batches,
one at a time. No lock. The number of a query's last micro-batch is a property of the table, set in the commit that has
the micro-batch's rows (docs/decisions/0071-iceberg-by-pyiceberg.md).
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, Or
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyspark.sql import DataFrame
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas_spark.pipeline.pipeline_error import IcebergError
from barnabas_spark.pipeline.rows import DELETED, PLACE_COLUMNS
from barnabas_spark.pipeline.sinks.sink import QueryPlace

BATCH_PROPERTY = "barnabas.last-batch."
"""The table's property with the number of a query's last micro-batch; the query's id follows."""
QUERY_SUMMARY, BATCH_SUMMARY = "barnabas.query-id", "barnabas.batch-id"
"""What each snapshot's summary says of where its rows come from."""


class IcebergTarget(NamedTuple):
    """A table, as `iceberg_sink.IcebergSink` has it, and how it is written."""

    table: str
    catalog: Mapping[str, str]
    directory: str | None
    place: str
    key_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    """Those of a table that is made."""
    is_replaced: bool
    """Whether each micro-batch replaces all rows."""


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Before it stands what has no timestamp, which cannot be compared with others."""


class Changes(NamedTuple):
    """What a micro-batch does to the rows of a table, of which each key is in one of the two."""

    upserted: pa.Table
    """The rows that replace those of their keys, or are added."""
    deleted: pa.Table
    """The keys whose rows are deleted."""


class IcebergTable:
    """One sink's table. Raises IcebergError for columns that no table can have."""

    def __init__(self, target: IcebergTarget, rows: DataFrame) -> None:
        self._target = target
        self._columns = _iceberg_schema(rows.schema)
        self._opened: Catalog | None = None
        for column in (*target.key_columns, *target.partition_by):
            if column not in rows.columns:
                raise IcebergError(f"there is no column {column!r}; there are {', '.join(rows.columns)}")

    def prepare(self, create: bool) -> None:
        """Check that the table fits, and make it if it is missing. Raises IcebergError."""
        directory = self._target.directory
        with self._told():
            if directory is not None and not os.path.isdir(directory):
                if not create:
                    return
                os.makedirs(directory)
            try:
                table = self._table()
            except NoSuchTableError:
                if create:
                    self._create()
                return
        problems = _misfits(self._columns, table.schema())
        if problems:
            raise IcebergError(f"the Iceberg table {self._target.table} does not fit: {'; '.join(problems)}")

    def write(self, rows: DataFrame, batch: int, place: QueryPlace) -> None:
        """Write a micro-batch, unless it is there already. Raises IcebergError, OSError, Spark's errors."""
        query_id = place.writer_id()
        noted = f"{BATCH_PROPERTY}{query_id}"
        with self._told():
            table = self._table()
        if int(table.properties.get(noted, -1)) >= batch:
            return
        # Iceberg's timestamps are of UTC; those of Spark have the session's zone.
        found = rows.toArrow().cast(to_arrow_schema(rows.schema, timezone="UTC"))
        if found.num_rows == 0 and not self._target.is_replaced:
            return
        summary = {QUERY_SUMMARY: query_id, BATCH_SUMMARY: str(batch)}
        changes = None
        if self._target.key_columns:
            changes = last_changes(found, self._target.key_columns, f"micro-batch {batch}")
        with self._told(), table.transaction() as transaction:
            transaction.set_properties({noted: str(batch)})
            # pyiceberg warns of an overwrite of nothing.
            if self._target.is_replaced and table.current_snapshot() is not None:
                transaction.overwrite(found, snapshot_properties=summary)
            elif changes is not None:
                self._change(table, transaction, changes, summary)
            else:
                transaction.append(found, snapshot_properties=summary)

    def _change(self, table: Table, transaction: Transaction, changes: Changes, summary: dict[str, str]) -> None:
        keys = self._target.key_columns
        if changes.deleted.num_rows and table.current_snapshot() is not None:
            gone = _rows_of(changes.deleted)
            # pyiceberg warns of a delete of nothing.
            if table.scan(row_filter=gone, selected_fields=keys, limit=1).to_arrow().num_rows:
                transaction.delete(gone, snapshot_properties=summary)
        if changes.upserted.num_rows:
            transaction.upsert(changes.upserted, list(keys), snapshot_properties=summary)

    def _create(self) -> None:
        catalog = self._catalog()
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(self._target.table.rpartition(".")[0])
        try:
            with catalog.create_table_transaction(
                self._target.table, self._columns, properties=dict(self._target.properties)
            ) as transaction:
                if self._target.partition_by:
                    with transaction.update_spec() as partitions:
                        for column in self._target.partition_by:
                            partitions.add_identity(column)
        except TableAlreadyExistsError:
            # Another sink or another pipeline has made it meanwhile.
            self.prepare(create=False)

    def _table(self) -> Table:
        return self._catalog().load_table(self._target.table)

    def _catalog(self) -> Catalog:
        if self._opened is None:
            properties = dict(self._target.catalog)
            # pyiceberg's own default. A catalog in SQL has the tables of one name only.
            name = properties.pop("name", "default")
            self._opened = load_catalog(name, **properties)
        return self._opened

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn the errors of catalogs and storage, which are of many libraries, into one sentence."""
        try:
            yield
        except (IcebergError, NoSuchTableError):
            raise
        except Exception as error:
            told = " ".join(str(error).split()) or "no reason is given"
            raise IcebergError(
                f"the Iceberg table {self._target.table} in {self._target.place} cannot be used:"
                f" {type(error).__name__}: {told}"
            ) from error


# -- keys


def last_changes(found: pa.Table, keys: Sequence[str], where: str) -> Changes:
    """Return what the rows of a micro-batch do to a table, of which the last of each key counts.

    found: the rows, with DELETED and perhaps with PLACE_COLUMNS, which say which of two rows is the last. where: the
    micro-batch in words. Raises IcebergError: a key is NULL, or the last row of a key cannot be told.
    """
    for key in keys:
        if found[key].null_count:
            raise IcebergError(f"{where} has a NULL in {key!r}, a column of upsert_by: filter it out")
    if found.select(keys).group_by(keys).aggregate([]).num_rows < found.num_rows:
        rows_of: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for index, values in enumerate(zip(*(found[key].to_pylist() for key in keys), strict=True)):
            rows_of[values].append(index)
        last = [
            indexes[0] if len(indexes) == 1 else _last_of(found, indexes, keys, where) for indexes in rows_of.values()
        ]
        found = found.take(sorted(last))
    deleted = found[DELETED]
    written = [name for name in found.column_names if name != DELETED and name not in PLACE_COLUMNS]
    return Changes(found.filter(pc.invert(deleted)).select(written), found.filter(deleted).select(list(keys)))


def _last_of(found: pa.Table, indexes: list[int], keys: Sequence[str], where: str) -> int:
    """Return which of some rows of one key is the last. Raises IcebergError.

    The offset decides within a partition, and between partitions the timestamp, as for a table of a topic
    (docs/decisions/0089-the-last-record-of-a-key.md).
    """
    rows = found.take(indexes).to_pylist()
    shown = ", ".join(f"{key} = {rows[0][key]!r}" for key in keys)
    told = f"{where} has {len(rows)} rows for {shown}"
    if PLACE_COLUMNS[0] not in found.column_names:
        raise IcebergError(
            f"{told}, and upsert_by takes one of each key: keep the columns {', '.join(PLACE_COLUMNS)} of the source,"
            " and the last counts, or fold the rows in a transform, as by GROUP BY with max_by"
        )
    topic, partition, offset, timestamp = PLACE_COLUMNS
    newest: dict[tuple[str, int], int] = {}
    for number, row in enumerate(rows):
        place = (row[topic], row[partition])
        other = newest.get(place)
        if other is None or row[offset] > rows[other][offset]:
            newest[place] = number
        elif row[offset] == rows[other][offset] and _data(row) != _data(rows[other]):
            raise IcebergError(
                f"{told}, made of one record, {row[topic]}-{row[partition]}, offset {row[offset]}: which of them counts"
                " cannot be told"
            )
    last, *rivals = sorted(newest.values(), key=lambda number: rows[number][timestamp], reverse=True)
    for rival in rivals:
        row, other_row = rows[rival], rows[last]
        undecided = row[timestamp] == other_row[timestamp] or row[timestamp] < _EPOCH
        if undecided and _data(row) != _data(other_row):
            places = [f"{each[topic]}-{each[partition]}, offset {each[offset]}" for each in (row, other_row)]
            raise IcebergError(
                f"{told}, of {' and '.join(places)}: which of these records is the last cannot be told: their"
                " timestamps are equal, or missing. Write the key once more"
            )
    return indexes[last]


def _data(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in PLACE_COLUMNS}


def _rows_of(keys: pa.Table) -> BooleanExpression:
    """Return the filter that finds the rows of these keys, at least one."""
    if keys.num_columns == 1:
        return In(keys.column_names[0], keys.column(0).to_pylist())
    found = [functools.reduce(And, [EqualTo(name, value) for name, value in row.items()]) for row in keys.to_pylist()]
    return found[0] if len(found) == 1 else Or(*found)


# -- columns

_PLAIN_TYPES: dict[type[spark.DataType], iceberg.IcebergType] = {
    spark.BooleanType: iceberg.BooleanType(),
    spark.ByteType: iceberg.IntegerType(),
    spark.ShortType: iceberg.IntegerType(),
    spark.IntegerType: iceberg.IntegerType(),
    spark.LongType: iceberg.LongType(),
    spark.FloatType: iceberg.FloatType(),
    spark.DoubleType: iceberg.DoubleType(),
    spark.StringType: iceberg.StringType(),
    spark.BinaryType: iceberg.BinaryType(),
    spark.DateType: iceberg.DateType(),
    spark.TimestampType: iceberg.TimestamptzType(),
    spark.TimestampNTZType: iceberg.TimestampType(),
}
_PROMOTIONS = {("int", "long"), ("float", "double")}
"""Types of rows that a table may have as wider ones, by the Iceberg specification."""


def _iceberg_schema(columns: spark.StructType) -> Schema:
    """Return the schema of a table for these columns, all optional. Raises IcebergError for a type without a like."""
    return Schema(*_iceberg_fields(columns, "", itertools.count(1)))


def _misfits(columns: Schema, table: Schema) -> list[str]:
    """Return in words why rows of these columns cannot be written to a table; an empty list if they can."""
    return list(_struct_misfits(columns.as_struct(), table.as_struct(), ""))


def _iceberg_fields(columns: spark.StructType, above: str, ids: Iterator[int]) -> list[iceberg.NestedField]:
    return [
        iceberg.NestedField(
            next(ids), field.name, _iceberg_type(field.dataType, f"{above}{field.name}", ids), required=False
        )
        for field in columns.fields
    ]


def _iceberg_type(found: spark.DataType, path: str, ids: Iterator[int]) -> iceberg.IcebergType:
    if isinstance(found, spark.StructType):
        return iceberg.StructType(*_iceberg_fields(found, f"{path}.", ids))
    if isinstance(found, spark.ArrayType):
        element = _iceberg_type(found.elementType, f"{path}.element", ids)
        return iceberg.ListType(next(ids), element, element_required=False)
    if isinstance(found, spark.MapType):
        key, value = (
            _iceberg_type(found.keyType, f"{path}.key", ids),
            _iceberg_type(found.valueType, f"{path}.value", ids),
        )
        return iceberg.MapType(next(ids), key, next(ids), value, value_required=False)
    if isinstance(found, spark.DecimalType):
        return iceberg.DecimalType(found.precision, found.scale)
    plain = _PLAIN_TYPES.get(type(found))
    if plain is None:
        raise IcebergError(f"column {path!r} is {found.simpleString()}, which Iceberg tables cannot have: cast it")
    return plain


def _struct_misfits(rows: iceberg.StructType, table: iceberg.StructType, above: str) -> Iterator[str]:
    there = {field.name: field for field in table.fields}
    given = {field.name: field for field in rows.fields}
    for name, field in given.items():
        if name not in there:
            yield f"the table has no column {above + name!r}"
        else:
            yield from _type_misfits(field.field_type, there[name].field_type, above + name)
    for name, field in there.items():
        if field.required and name not in given:
            yield f"the table's column {above + name!r} must have a value, and the rows do not have it"


def _type_misfits(rows: iceberg.IcebergType, table: iceberg.IcebergType, path: str) -> Iterator[str]:
    if isinstance(rows, iceberg.StructType) and isinstance(table, iceberg.StructType):
        yield from _struct_misfits(rows, table, f"{path}.")
    elif isinstance(rows, iceberg.ListType) and isinstance(table, iceberg.ListType):
        yield from _type_misfits(rows.element_type, table.element_type, f"{path}.element")
    elif isinstance(rows, iceberg.MapType) and isinstance(table, iceberg.MapType):
        yield from _type_misfits(rows.key_type, table.key_type, f"{path}.key")
        yield from _type_misfits(rows.value_type, table.value_type, f"{path}.value")
    elif isinstance(rows, iceberg.DecimalType) and isinstance(table, iceberg.DecimalType):
        if rows.scale != table.scale or rows.precision > table.precision:
            yield f"column {path!r} is {table} in the table, and {rows} in the rows"
    elif rows != table and (str(rows), str(table)) not in _PROMOTIONS:
        yield f"column {path!r} is {table} in the table, and {rows} in the rows"
