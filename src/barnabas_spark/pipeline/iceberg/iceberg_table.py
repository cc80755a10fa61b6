"""The Iceberg table of one sink: made if it is missing, checked against the rows, written once per micro-batch.

Made by `plan` on the driver's main thread; `write` is called by Spark's thread for the query's micro-batches, one at a
time. No lock. The number of a query's last micro-batch is a property of the table, set in the commit that has the
micro-batch's rows (docs/decisions/0071-iceberg-by-pyiceberg.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas_spark.pipeline.iceberg.iceberg_error import IcebergError
from barnabas_spark.pipeline.iceberg.iceberg_schema import iceberg_schema, misfits
from barnabas_spark.pipeline.specification import IcebergTarget, Sink

BATCH_PROPERTY = "barnabas.last-batch."
"""The table's property with the number of a query's last micro-batch; the query's id follows."""
QUERY_SUMMARY, BATCH_SUMMARY = "barnabas.query-id", "barnabas.batch-id"
"""What each snapshot's summary says of where its rows come from."""


class IcebergTable:
    """One sink's table. Raises IcebergError for columns that no table can have."""

    def __init__(self, sink: Sink, target: IcebergTarget, rows: DataFrame) -> None:
        self._sink = sink
        self._target = target
        self._columns = iceberg_schema(rows.schema)
        self._opened: Catalog | None = None
        for column in (*target.key_columns, *sink.partition_by):
            if column not in rows.columns:
                raise IcebergError(f"there is no column {column!r}; there are {', '.join(rows.columns)}")

    def prepare(self, *, create: bool) -> None:
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
        problems = misfits(self._columns, table.schema())
        if problems:
            raise IcebergError(f"the Iceberg table {self._target.table} does not fit: {'; '.join(problems)}")

    def write(self, rows: DataFrame, query_id: str, batch: int) -> None:
        """Write a micro-batch, unless it is there already. Raises IcebergError, Spark's errors."""
        noted = f"{BATCH_PROPERTY}{query_id}"
        with self._told():
            table = self._table()
        if int(table.properties.get(noted, -1)) >= batch:
            return
        # Iceberg's timestamps are of UTC; those of Spark have the session's zone.
        found = rows.toArrow().cast(to_arrow_schema(rows.schema, timezone="UTC"))
        if found.num_rows == 0 and self._sink.mode != "complete":
            return
        self._check_keys(found, batch)
        summary = {QUERY_SUMMARY: query_id, BATCH_SUMMARY: str(batch)}
        with self._told(), table.transaction() as transaction:
            transaction.set_properties({noted: str(batch)})
            # pyiceberg warns of an overwrite of nothing.
            if self._sink.mode == "complete" and table.current_snapshot() is not None:
                transaction.overwrite(found, snapshot_properties=summary)
            elif self._target.key_columns:
                transaction.upsert(found, list(self._target.key_columns), snapshot_properties=summary)
            else:
                transaction.append(found, snapshot_properties=summary)

    def _check_keys(self, found: pa.Table, batch: int) -> None:
        """Check that each key is in one row only. Raises IcebergError."""
        keys = list(self._target.key_columns)
        if not keys:
            return
        for key in keys:
            if found[key].null_count:
                raise IcebergError(f"micro-batch {batch} has a NULL in {key!r}, a column of upsert_by: filter it out")
        counts = found.select(keys).group_by(keys).aggregate([([], "count_all")])
        repeated = counts.filter(pc.greater(counts["count_all"], 1))
        if repeated.num_rows:
            shown = ", ".join(f"{key} = {repeated[key][0].as_py()!r}" for key in keys)
            raise IcebergError(
                f"micro-batch {batch} has {repeated['count_all'][0].as_py()} rows for {shown}, and upsert_by takes one"
                " of each key: fold them in a transform, as by GROUP BY with max_by"
            )

    def _create(self) -> None:
        catalog = self._catalog()
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(self._target.table.rpartition(".")[0])
        try:
            with catalog.create_table_transaction(
                self._target.table, self._columns, properties=dict(self._sink.options)
            ) as transaction:
                if self._sink.partition_by:
                    with transaction.update_spec() as partitions:
                        for column in self._sink.partition_by:
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
